//! Links fields: looks up every length, tag and selector among the preceding fields, and gives each
//! field that it finds a slot.
//!
//! There are two passes over all classes, in the order of a packet. The first looks up the targets;
//! the second numbers them and stores the numbers at both ends. Slots of the packet header come
//! first, then those of one stream, then those of one event, so that a record needs no slots of
//! other streams or events.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use crate::class::{
    Choice, FieldClass, FieldLocation, IntRange, IntegerClass, Length, Mapping, NO_SLOT, Origin,
    Scope, StringLength, StructClass, VariantClass, WideClass, WideKind,
};
use crate::error::MetadataError;
use crate::metadata::draft::Draft;

type Checked<T> = Result<T, MetadataError>;

/// One scope of the trace, of stream `.0`, or of its event `.1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Trace,
    Stream(usize, Scope),
    Event(usize, usize, Scope),
}

impl Place {
    fn scope(self) -> Scope {
        match self {
            Place::Trace => Scope::PacketHeader,
            Place::Stream(_, scope) | Place::Event(_, _, scope) => scope,
        }
    }
}

/// Indices from the top of a scope: of a structure's member, of a variant's option, 0 into an array
/// or optional.
type Path = Vec<u32>;
type Spot = (Place, Path);

#[derive(Debug, Default)]
struct Links {
    /// Maps each dependent field to the field it depends on, and to the choices if it is a variant.
    targets: HashMap<Spot, (Spot, Vec<Choice>)>,
    /// Maps each of several mutually exclusive fields to another one: they share a slot.
    exclusive: HashMap<Spot, Spot>,
    /// Slots by field, after numbering.
    slots: HashMap<Spot, u32>,
    /// Members of large structures, by the structure's address, which is stable during the lookup.
    names: RefCell<HashMap<usize, HashMap<Arc<str>, usize>>>,
    /// Total number of candidate fields of all locations so far.
    looked: usize,
    /// Whether paths may go through variants and optional fields, and end at them (CTF 2).
    through: bool,
}

/// Limit on the candidate fields of all locations together: a few locations with many options could
/// take unbounded time.
const MAX_FOUND: usize = 1 << 21;

/// The candidate fields of a location: one, or several in different options of a variant, of which
/// one is present.
type Found<'a> = Vec<(Spot, &'a FieldClass)>;

/// Links all fields of `draft`; returns the number of slots that a reader needs.
pub(crate) fn link(draft: &mut Draft) -> Checked<u32> {
    let mut links = Links {
        through: draft.trace.major >= 2,
        ..Links::default()
    };
    look_up_all(draft, &mut links)?;
    if links.targets.is_empty() {
        return Ok(0);
    }
    let slots = links.number();
    for_each_scope(draft, |place, class| {
        links.write_struct(class, place, &mut Path::new())
    });
    Ok(slots)
}

fn for_each_scope(draft: &mut Draft, mut apply: impl FnMut(Place, &mut StructClass)) {
    if let Some(class) = &mut draft.packet_header {
        apply(Place::Trace, class);
    }
    for (s, stream) in draft.streams.iter_mut().enumerate() {
        let scopes = [
            (Scope::PacketContext, &mut stream.packet_context),
            (Scope::EventHeader, &mut stream.event_header),
            (Scope::EventCommonContext, &mut stream.event_context),
        ];
        for (scope, class) in scopes {
            class
                .iter_mut()
                .for_each(|class| apply(Place::Stream(s, scope), class));
        }
        for (e, event) in stream.events.iter_mut().enumerate() {
            for (scope, class) in [
                (Scope::EventContext, &mut event.context),
                (Scope::EventFields, &mut event.fields),
            ] {
                class
                    .iter_mut()
                    .for_each(|class| apply(Place::Event(s, e, scope), class));
            }
        }
    }
}

fn look_up_all(draft: &Draft, links: &mut Links) -> Checked<()> {
    let mut before = Vec::new();
    look_up_scope(
        Place::Trace,
        draft.packet_header.as_ref(),
        &mut before,
        links,
    )?;
    for (s, stream) in draft.streams.iter().enumerate() {
        let mut before = before.clone();
        let scopes = [
            (Scope::PacketContext, &stream.packet_context),
            (Scope::EventHeader, &stream.event_header),
            (Scope::EventCommonContext, &stream.event_context),
        ];
        for (scope, class) in scopes {
            look_up_scope(Place::Stream(s, scope), class.as_ref(), &mut before, links)?;
        }
        for (e, event) in stream.events.iter().enumerate() {
            let mut before = before.clone();
            for (scope, class) in [
                (Scope::EventContext, &event.context),
                (Scope::EventFields, &event.fields),
            ] {
                look_up_scope(
                    Place::Event(s, e, scope),
                    class.as_ref(),
                    &mut before,
                    links,
                )?;
            }
        }
    }
    Ok(())
}

fn look_up_scope<'a>(
    place: Place,
    class: Option<&'a StructClass>,
    before: &mut Vec<(Place, &'a StructClass)>,
    links: &mut Links,
) -> Checked<()> {
    let Some(class) = class else { return Ok(()) };
    let mut walk = Walk {
        place,
        before,
        links,
        open: Vec::new(),
        path: Path::new(),
    };
    walk.structure(class)?;
    before.push((place, class));
    Ok(())
}

/// A structure whose members are being read.
struct Open<'a> {
    class: &'a StructClass,
    /// Length of the path to it.
    depth: usize,
    /// The member being read.
    current: usize,
}

/// State of the first pass over one scope.
struct Walk<'a, 'w> {
    place: Place,
    before: &'w [(Place, &'a StructClass)],
    links: &'w mut Links,
    open: Vec<Open<'a>>,
    path: Path,
}

impl<'a> Walk<'a, '_> {
    fn structure(&mut self, class: &'a StructClass) -> Checked<()> {
        self.open.push(Open {
            class,
            depth: self.path.len(),
            current: 0,
        });
        for (index, member) in class.members.iter().enumerate() {
            if let Some(open) = self.open.last_mut() {
                open.current = index;
            }
            self.inside(index, &member.class)?;
        }
        self.open.pop();
        Ok(())
    }

    fn inside(&mut self, index: usize, class: &'a FieldClass) -> Checked<()> {
        self.path.push(u32::try_from(index).unwrap_or(u32::MAX));
        let result = self.field(class);
        self.path.pop();
        result
    }

    fn field(&mut self, class: &'a FieldClass) -> Checked<()> {
        match class {
            FieldClass::Struct(class) => self.structure(class),
            FieldClass::Array(class) => {
                if let Length::Dynamic(location) = &class.length {
                    self.length(location)?;
                }
                self.inside(0, &class.element)
            }
            FieldClass::Variant(class) => {
                self.variant(class)?;
                class
                    .options
                    .iter()
                    .enumerate()
                    .try_for_each(|(index, option)| self.inside(index, &option.class))
            }
            FieldClass::Optional(class) => {
                let location = &class.selector;
                let found = self.find(location)?;
                one_kind(location, &found)?;
                for (_, target) in &found {
                    let (at, message) = match (target, &class.ranges) {
                        (target, None) if is_boolean(target) => continue,
                        (target, Some(_)) if is_boolean(target) => (
                            class.ranges_position,
                            "is a boolean, so there can be no `selector-field-ranges`",
                        ),
                        (target, None) if is_integer(target) => (
                            class.ranges_position,
                            "is an integer, so `selector-field-ranges` are needed",
                        ),
                        (target, Some(_)) if is_integer(target) => continue,
                        _ => (
                            location.position,
                            "decides whether a field is there, so it must be a boolean or an integer",
                        ),
                    };
                    return Err(MetadataError::new(at, format!("`{location}` {message}")));
                }
                self.record(location, found, Vec::new())?;
                self.inside(0, &class.class)
            }
            FieldClass::String(class) => self.string_length(&class.length),
            FieldClass::Blob(class) => self.string_length(&class.length),
            _ => Ok(()),
        }
    }

    fn string_length(&mut self, length: &StringLength) -> Checked<()> {
        match length {
            StringLength::Dynamic(location) => self.length(location),
            _ => Ok(()),
        }
    }

    fn length(&mut self, location: &FieldLocation) -> Checked<()> {
        let found = self.find(location)?;
        if !found.iter().all(|(_, target)| is_unsigned(target)) {
            let message = format!("`{location}` gives a length, so it must be an unsigned integer");
            return Err(MetadataError::new(location.position, message));
        }
        self.record(location, found, Vec::new())
    }

    fn variant(&mut self, class: &VariantClass) -> Checked<()> {
        let location = &class.selector;
        let found = self.find(location)?;
        let mappings = found.first().and_then(|(_, target)| target.mappings());
        let choices = match (&class.ranges, mappings) {
            (Some(ranges), _) => {
                if !found.iter().all(|(_, target)| is_integer(target)) {
                    let message =
                        format!("`{location}` selects an option, so it must be an integer");
                    return Err(MetadataError::new(location.position, message));
                }
                one_kind(location, &found)?;
                choices_by_range(ranges)
            }
            (None, Some(mappings)) => choices_by_label(class, mappings),
            (None, None) => {
                let message =
                    format!("`{location}` is a variant's tag, so it must be an enumeration");
                return Err(MetadataError::new(location.position, message));
            }
        };
        if choices.is_empty() && class.ranges.is_none() {
            let message = format!("no label of `{location}` names an option of the variant");
            return Err(MetadataError::new(location.position, message));
        }
        self.record(location, found, choices)
    }

    fn record(
        &mut self,
        location: &FieldLocation,
        found: Found,
        choices: Vec<Choice>,
    ) -> Checked<()> {
        self.links.looked += found.len();
        if self.links.looked > MAX_FOUND {
            let message = format!(
                "the locations of fields mean more than {MAX_FOUND} fields, which is not supported"
            );
            return Err(MetadataError::new(location.position, message));
        }
        let mut spots = found.into_iter().map(|(spot, _)| spot);
        let Some(first) = spots.next() else {
            return Ok(());
        };
        spots.for_each(|other| self.links.unite(&first, &other));
        self.links
            .targets
            .insert((self.place, self.path.clone()), (first, choices));
        Ok(())
    }

    /// The candidate fields of `location` here; at least one.
    fn find(&self, location: &FieldLocation) -> Checked<Found<'a>> {
        let missing = || {
            MetadataError::new(
                location.position,
                format!("no field `{location}` is read before this one"),
            )
        };
        for path in &location.visited {
            let visited = FieldLocation {
                path: path.clone(),
                visited: Vec::new(),
                ..location.clone()
            };
            if !self.is_structure(&visited)? {
                return Err(MetadataError::new(
                    location.position,
                    format!("`{visited}` is no structure that is read before this field"),
                ));
            }
        }
        self.resolve(location, &location.path)?.ok_or_else(missing)
    }

    /// Whether `location` leads to a structure that was read or is being read.
    fn is_structure(&self, location: &FieldLocation) -> Checked<bool> {
        let path = &location.path;
        let up = path.iter().take_while(|name| name.is_none()).count();
        let start = match location.origin {
            Origin::Scope(scope) => (scope == self.place.scope()).then_some(0),
            _ => self.open.len().checked_sub(up + 1),
        };
        if start.is_some_and(|start| self.is_open(start, path.get(up..).unwrap_or(&[]))) {
            return Ok(true);
        }
        let found = self.resolve(location, path)?;
        Ok(found.is_some_and(|found| {
            found
                .iter()
                .all(|(_, class)| matches!(class, FieldClass::Struct(_)))
        }))
    }

    /// Whether `names` lead from the open structure at index `start` to another open one.
    fn is_open(&self, start: usize, names: &[Name]) -> bool {
        let Some(open) = self.open.get(start) else {
            return false;
        };
        match names.split_first() {
            None => true,
            Some((first, rest)) => {
                self.member_index(open.class, first) == Some(open.current)
                    && self.is_open(start + 1, rest)
            }
        }
    }

    /// Follows `path` from the origin of `location`.
    fn resolve(&self, location: &FieldLocation, path: &[Name]) -> Checked<Option<Found<'a>>> {
        Ok(match location.origin {
            Origin::Scope(scope) if scope == self.place.scope() => self.among_open(0, path),
            Origin::Scope(scope) => {
                let before = self.before.iter().find(|(place, _)| place.scope() == scope);
                before.and_then(|(place, class)| self.in_scope(*place, class, path))
            }
            Origin::Here => {
                let up = path.iter().take_while(|name| name.is_none()).count();
                let Some(start) = self.open.len().checked_sub(up + 1) else {
                    let message = format!(
                        "the path `{location}` leaves the structure of the whole scope, around \
                         which there is none"
                    );
                    return Err(MetadataError::new(location.position, message));
                };
                self.among_open(start, path.get(up..).unwrap_or(&[]))
            }
            Origin::Nearest => {
                // A path in a type that was declared in an outer structure refers to fields there.
                let written = self
                    .open
                    .iter()
                    .rposition(|open| open.class.body == location.body && location.body != 0);
                let here = (0..written.map_or(self.open.len(), |written| written + 1))
                    .rev()
                    .find_map(|start| self.among_open(start, path));
                here.or_else(|| {
                    let mut before = self.before.iter().rev();
                    before.find_map(|(place, class)| self.in_scope(*place, class, path))
                })
            }
        })
    }

    /// Follows names from the open structure at index `start`: into members read before, or into
    /// the one being read.
    fn among_open(&self, start: usize, names: &[Name]) -> Option<Found<'a>> {
        let open = self.open.get(start)?;
        let (first, rest) = names.split_first()?;
        let index = self.member_index(open.class, first)?;
        if index < open.current {
            let mut path = self.path.get(..open.depth)?.to_vec();
            path.push(u32::try_from(index).ok()?);
            return self.descend(
                (self.place, path),
                &open.class.members.get(index)?.class,
                rest,
            );
        }
        if index > open.current || rest.is_empty() {
            return None;
        }
        self.among_open(start + 1, rest)
    }

    /// Index of the member that a path calls `name`. Uses a map for large structures, in which
    /// there may be as many lookups as members.
    fn member_index(&self, class: &StructClass, name: &Name) -> Option<usize> {
        let name = name.as_deref()?;
        if class.members.len() <= 16 {
            let declared = class
                .members
                .iter()
                .position(|member| &*member.declared_name == name);
            return declared.or_else(|| {
                class
                    .members
                    .iter()
                    .position(|member| &*member.name == name)
            });
        }
        let mut names = self.links.names.borrow_mut();
        let names = names
            .entry(std::ptr::from_ref(class).addr())
            .or_insert_with(|| members_by_name(class));
        names.get(name).copied()
    }

    fn in_scope(&self, place: Place, class: &'a StructClass, names: &[Name]) -> Option<Found<'a>> {
        let (first, rest) = names.split_first()?;
        let index = self.member_index(class, first)?;
        self.descend(
            (place, vec![u32::try_from(index).ok()?]),
            &class.members.get(index)?.class,
            rest,
        )
    }

    /// Follows a path through fields that were read completely.
    fn descend(&self, spot: Spot, class: &'a FieldClass, names: &[Name]) -> Option<Found<'a>> {
        let mut found = Found::new();
        self.collect(spot, class, names, &mut found);
        (!found.is_empty()).then_some(found)
    }

    fn collect(
        &self,
        (place, path): Spot,
        class: &'a FieldClass,
        names: &[Name],
        found: &mut Found<'a>,
    ) {
        let below = |index: usize| {
            (
                place,
                path.iter()
                    .copied()
                    .chain(u32::try_from(index).ok())
                    .collect(),
            )
        };
        match (class, names.split_first()) {
            (FieldClass::Variant(class), _) if self.links.through => {
                for (index, option) in class.options.iter().enumerate() {
                    self.collect(below(index), &option.class, names, found);
                }
            }
            (FieldClass::Optional(class), _) if self.links.through => {
                self.collect(below(0), &class.class, names, found)
            }
            (_, None) => found.push(((place, path), class)),
            (FieldClass::Struct(class), Some((first, rest))) => {
                if let Some(index) = self.member_index(class, first)
                    && let Some(member) = class.members.get(index)
                {
                    self.collect(below(index), &member.class, rest, found);
                }
            }
            (_, Some(_)) => {}
        }
    }
}

type Name = Option<Arc<str>>;

fn is_integer(class: &FieldClass) -> bool {
    match class {
        FieldClass::Integer(_) | FieldClass::Enum(_) | FieldClass::VarInt(_) => true,
        FieldClass::Wide(class) => class.is_integer(),
        _ => false,
    }
}

fn is_boolean(class: &FieldClass) -> bool {
    matches!(
        class,
        FieldClass::Bool(_)
            | FieldClass::Wide(WideClass {
                kind: WideKind::Bool,
                ..
            })
    )
}

/// Checks that all candidates of a selector are booleans, or all signed, or all unsigned.
fn one_kind(location: &FieldLocation, found: &Found) -> Checked<()> {
    let kind = |class: &FieldClass| (is_boolean(class), is_unsigned(class));
    let mut kinds = found.iter().map(|(_, class)| kind(class));
    let first = kinds.next();
    if kinds.any(|kind| Some(kind) != first) {
        let message = format!(
            "`{location}` may be one of several fields, of which some are signed integers and \
             others are not"
        );
        return Err(MetadataError::new(location.position, message));
    }
    Ok(())
}

fn is_unsigned(class: &FieldClass) -> bool {
    match class {
        FieldClass::VarInt(class) => !class.signed,
        FieldClass::Wide(class) => class.is_integer() && !class.signed,
        _ => matches!(class.as_integer(), Some(IntegerClass { signed: false, .. })),
    }
}

/// Members by their declared names, and by their shown names if no other member has that name.
fn members_by_name(class: &StructClass) -> HashMap<Arc<str>, usize> {
    let declared = class
        .members
        .iter()
        .map(|member| &member.declared_name)
        .enumerate();
    let shown = class.members.iter().map(|member| &member.name).enumerate();
    let mut names = HashMap::new();
    for (index, name) in declared.chain(shown) {
        names.entry(Arc::clone(name)).or_insert(index);
    }
    names
}

fn choices_by_range(ranges: &[Vec<IntRange>]) -> Vec<Choice> {
    let options = (0..).zip(ranges);
    options
        .flat_map(|(option, ranges)| {
            ranges.iter().map(move |range| Choice {
                range: range.clone(),
                option,
            })
        })
        .collect()
}

/// Matches labels with options by declared name, or else without the leading underscore of either:
/// a label that is not an identifier cannot carry the option's underscore.
fn choices_by_label(class: &VariantClass, mappings: &[Mapping]) -> Vec<Choice> {
    let mut by_label: HashMap<&str, u32> = HashMap::new();
    for (index, option) in (0..).zip(&class.options) {
        by_label.entry(&option.name).or_insert(index);
    }
    for (index, option) in (0..).zip(&class.options) {
        by_label.insert(&option.declared_name, index);
    }
    let option = |label: &str| {
        by_label
            .get(label)
            .or_else(|| by_label.get(label.strip_prefix('_')?))
            .copied()
    };
    let choices = mappings.iter().filter_map(|mapping| {
        Some(Choice {
            range: mapping.range.clone(),
            option: option(&mapping.label)?,
        })
    });
    choices.collect()
}

impl Links {
    /// Gives two mutually exclusive fields the same slot.
    fn unite(&mut self, a: &Spot, b: &Spot) {
        let (a, b) = (self.first(a), self.first(b));
        if a != b {
            self.exclusive.insert(b, a);
        }
    }

    /// The representative of the fields that share a slot with `spot`.
    fn first(&self, spot: &Spot) -> Spot {
        let mut first = spot;
        while let Some(next) = self.exclusive.get(first) {
            first = next;
        }
        first.clone()
    }

    /// Numbers the targets; returns the largest number of slots that one event's record needs.
    fn number(&mut self) -> u32 {
        let mut wanted: Vec<Spot> = self
            .targets
            .values()
            .map(|(target, _)| target.clone())
            .collect();
        wanted.extend(self.exclusive.keys().cloned());
        let key = |place: Place| match place {
            Place::Trace => (0, 0, 0, place.scope()),
            Place::Stream(stream, scope) => (1, stream, 0, scope),
            Place::Event(stream, event, scope) => (2, stream, event, scope),
        };
        wanted.sort_by(|a, b| (key(a.0), &a.1).cmp(&(key(b.0), &b.1)));
        wanted.dedup();
        let mut trace = 0;
        let mut streams: HashMap<usize, u32> = HashMap::new();
        let mut events: HashMap<(usize, usize), u32> = HashMap::new();
        let mut most = 0;
        for spot in wanted {
            let first = self.first(&spot);
            if let Some(slot) = self.slots.get(&first) {
                self.slots.insert(spot, *slot);
                continue;
            }
            let next = match spot.0 {
                Place::Trace => &mut trace,
                Place::Stream(stream, _) => streams.entry(stream).or_insert(trace),
                Place::Event(stream, event, _) => {
                    let first = streams.get(&stream).copied().unwrap_or(trace);
                    events.entry((stream, event)).or_insert(first)
                }
            };
            self.slots.insert(spot, *next);
            self.slots.insert(first, *next);
            *next += 1;
            most = most.max(*next);
        }
        most
    }

    fn write_struct(&self, class: &mut StructClass, place: Place, path: &mut Path) {
        for (index, member) in (0..).zip(&mut class.members) {
            path.push(index);
            self.write(&mut member.class, place, path);
            path.pop();
        }
    }

    fn write(&self, class: &mut FieldClass, place: Place, path: &mut Path) {
        let spot = (place, std::mem::take(path));
        let own = self.slots.get(&spot).copied();
        let target = self.targets.get(&spot);
        *path = spot.1;
        let slot = target
            .and_then(|(target, _)| self.slots.get(target))
            .copied()
            .unwrap_or(NO_SLOT);
        if let (Some(own), Some(cell)) = (own, class.slot_mut()) {
            *cell = own;
        }
        match class {
            FieldClass::Struct(class) => self.write_struct(class, place, path),
            FieldClass::Array(class) => {
                if let Length::Dynamic(location) = &mut class.length {
                    location.slot = slot;
                }
                self.write_inside(&mut class.element, place, path);
            }
            FieldClass::Variant(class) => {
                class.selector.slot = slot;
                class.choices = target.map_or(&[][..], |(_, choices)| choices).into();
                for (index, option) in (0..).zip(&mut class.options) {
                    path.push(index);
                    self.write(&mut option.class, place, path);
                    path.pop();
                }
                class.clears = self.cells(class.options.iter().map(|option| &option.class));
            }
            FieldClass::Optional(class) => {
                class.selector.slot = slot;
                self.write_inside(&mut class.class, place, path);
                class.clears = self.cells([&*class.class].into_iter());
            }
            FieldClass::String(class) => write_length(&mut class.length, slot),
            FieldClass::Blob(class) => write_length(&mut class.length, slot),
            _ => {}
        }
    }

    /// The slots of fields in `classes`, to clear if these are absent. Empty if paths cannot go
    /// through variants and optional fields: then no field outside depends on them.
    fn cells<'a>(&self, classes: impl Iterator<Item = &'a FieldClass>) -> Arc<[u32]> {
        let mut cells = Vec::new();
        if self.through {
            classes.for_each(|class| collect_cells(class, &mut cells));
            cells.sort_unstable();
            cells.dedup();
        }
        cells.into()
    }

    fn write_inside(&self, class: &mut FieldClass, place: Place, path: &mut Path) {
        path.push(0);
        self.write(class, place, path);
        path.pop();
    }
}

fn collect_cells(class: &FieldClass, cells: &mut Vec<u32>) {
    match class {
        FieldClass::Struct(class) => class
            .members
            .iter()
            .for_each(|member| collect_cells(&member.class, cells)),
        FieldClass::Array(class) => collect_cells(&class.element, cells),
        // These clear their own fields when they are read, but here they may not be reached.
        FieldClass::Variant(class) => cells.extend_from_slice(&class.clears),
        FieldClass::Optional(class) => cells.extend_from_slice(&class.clears),
        _ => cells.extend(class.slot().filter(|slot| *slot != NO_SLOT)),
    }
}

fn write_length(length: &mut StringLength, slot: u32) {
    if let StringLength::Dynamic(location) = length {
        location.slot = slot;
    }
}
