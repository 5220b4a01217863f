//! Lowers the classes of the source to those that are written: every field is byte-aligned and
//! little-endian, of 8, 16, 32 or 64 bits. For CTF 1.8, a class that only CTF 2 has becomes the
//! nearest one.
//!
//! Lengths and selectors keep referring to the same field if it is written and can be named from
//! there. Otherwise a copy of its value is written right before the member that needs it.

use std::collections::HashMap;
use std::sync::Arc;

use super::Format;
use super::names::{Names, identifier};
use super::ranges::disjoint;
use super::value::{Copy, MemberWrite, StructWrite, Test, Write};
use crate::class::attribute::Attributes;
use crate::class::{
    ArrayClass, Base, BitOrder, BlobClass, ByteOrder, Choice, Encoding, EnumClass, FieldClass,
    FieldLocation, FloatClass, IntRange, IntegerClass, Length, Mapping, Member, NO_SLOT,
    OptionalClass, Origin, Roles, Scope, StringClass, StringLength, StructClass, TextEncoding,
    VarIntClass, VariantClass, WideClass, WideKind,
};
use crate::error::Position;
use crate::metadata::tsdl::shown_name;

/// Location of a written field on which others depend.
#[derive(Debug, Clone)]
struct Target {
    scope: Scope,
    path: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Member(Arc<str>),
    /// Into an option of a variant or an optional field.
    Option(usize),
    /// Into an array.
    Element,
}

/// A structure whose members are being lowered.
#[derive(Debug)]
struct Open {
    /// Length of the path to it.
    depth: usize,
    names: Names,
    /// Declared names of the members so far.
    made: Vec<Arc<str>>,
    current: Arc<str>,
    /// Copies to write before the current member.
    needed: Vec<(Member, Copy)>,
}

/// Lowers the classes of one stream class, part by part in the order of a packet. It is cloned for
/// each event.
#[derive(Debug, Clone)]
pub(super) struct Lowering {
    format: Format,
    /// Whether the source is CTF 2, whose names may be any text.
    any_names: bool,
    targets: HashMap<u32, Target>,
    /// Whether each integer on which others depend is signed, by slot.
    signed: HashMap<u32, bool>,
    /// The labels of enumerations on which others depend, by slot.
    labels: HashMap<u32, Arc<[Mapping]>>,
    /// Sizes in bits of the integers that may exceed 64 bits, by slot; `None` if unbounded.
    wide: HashMap<u32, Option<u64>>,
}

impl Lowering {
    pub(super) fn new(format: Format, any_names: bool) -> Self {
        let (targets, signed, labels, wide) = (
            HashMap::new(),
            HashMap::new(),
            HashMap::new(),
            HashMap::new(),
        );
        Lowering {
            format,
            any_names,
            targets,
            signed,
            labels,
            wide,
        }
    }

    /// Notes a part that is not written.
    pub(super) fn skip(&mut self, class: &StructClass) {
        class
            .members
            .iter()
            .for_each(|member| self.skip_field(&member.class));
    }

    fn skip_field(&mut self, class: &FieldClass) {
        self.note(class);
        match class {
            FieldClass::Struct(class) => self.skip(class),
            FieldClass::Array(class) => self.skip_field(&class.element),
            FieldClass::Variant(class) => class
                .options
                .iter()
                .for_each(|option| self.skip_field(&option.class)),
            FieldClass::Optional(class) => self.skip_field(&class.class),
            _ => {}
        }
    }

    /// Notes a field on which others depend.
    fn note(&mut self, class: &FieldClass) -> Option<u32> {
        let slot = class.slot().filter(|slot| *slot != NO_SLOT)?;
        let (signed, wide) = match class {
            FieldClass::VarInt(class) => (class.signed, Some(None)),
            FieldClass::Wide(class) => (class.signed, Some(Some(class.size))),
            class => (class.storage().is_some_and(|class| class.signed), None),
        };
        self.signed.insert(slot, signed);
        if let FieldClass::Enum(class) = class {
            self.labels.insert(slot, Arc::clone(&class.mappings));
        }
        // Of mutually exclusive fields, the largest size counts.
        if let Some(size) = wide {
            let all = self.wide.entry(slot).or_insert(size);
            *all = all.and_then(|so_far| Some(so_far.max(size?)));
        }
        Some(slot)
    }

    /// Whether the enumeration has this label for any value that it can hold.
    fn has_label(&self, slot: u32, label: &str) -> bool {
        let signed = self.signed.get(&slot).copied().unwrap_or(false);
        let mut mappings = self
            .labels
            .get(&slot)
            .into_iter()
            .flat_map(|mappings| mappings.iter());
        mappings.any(|mapping| *mapping.label == *label && possible(mapping, signed).is_some())
    }

    /// Lowers a part, avoiding the names in `taken`; returns its class and how to write it.
    pub(super) fn part(
        &mut self,
        scope: Scope,
        class: &StructClass,
        taken: &[&str],
    ) -> (StructClass, StructWrite) {
        let mut walk = Walk {
            lowering: self,
            scope,
            here: Vec::new(),
            open: Vec::new(),
        };
        walk.structure(class, taken)
    }
}

struct Walk<'l> {
    lowering: &'l mut Lowering,
    scope: Scope,
    here: Vec<Step>,
    open: Vec<Open>,
}

impl Walk<'_> {
    fn structure(&mut self, from: &StructClass, taken: &[&str]) -> (StructClass, StructWrite) {
        let mut names = Names::default();
        taken
            .iter()
            .for_each(|name| drop(names.free((*name).to_owned())));
        // The framing already has this field, so it needs no name.
        let is_framing =
            |member: &Member| self.scope == Scope::PacketContext && has_role(&member.class);
        let declared = from.members.iter().map(|member| match is_framing(member) {
            true => None,
            false => Some(Arc::from(names.free(self.name(member)))),
        });
        let declared: Vec<Option<Arc<str>>> = declared.collect();
        let open = Open {
            depth: self.here.len(),
            names,
            made: Vec::new(),
            current: Arc::from(""),
            needed: Vec::new(),
        };
        self.open.push(open);
        let (mut members, mut writes) = (Vec::new(), Vec::new());
        for (member, name) in from.members.iter().zip(declared) {
            let Some(name) = name else {
                self.lowering.skip_field(&member.class);
                writes.push(MemberWrite {
                    copies: Vec::new(),
                    write: Write::Skip(member.class.clone()),
                });
                continue;
            };
            if let Some(open) = self.open.last_mut() {
                open.current = Arc::clone(&name);
            }
            self.here.push(Step::Member(Arc::clone(&name)));
            let (class, write) = self.class(&member.class);
            self.here.pop();
            let needed = self
                .open
                .last_mut()
                .map(|open| std::mem::take(&mut open.needed))
                .unwrap_or_default();
            let (before, copies): (Vec<Member>, Vec<Copy>) = needed.into_iter().unzip();
            if let Some(open) = self.open.last_mut() {
                open.made.extend(
                    before
                        .iter()
                        .map(|member| Arc::clone(&member.declared_name)),
                );
                open.made.push(Arc::clone(&name));
            }
            members.extend(before);
            members.push(Member {
                attributes: member.attributes.clone(),
                ..self.member(&name, class)
            });
            writes.push(MemberWrite { copies, write });
        }
        self.open.pop();
        let class = StructClass {
            attributes: from.attributes.clone(),
            ..StructClass::new(members, 8)
        };
        (
            class,
            StructWrite {
                alignment: from.alignment,
                members: writes,
            },
        )
    }

    /// The declared name to write.
    fn name(&self, member: &Member) -> String {
        match (self.lowering.format, self.lowering.any_names) {
            (Format::Ctf18, true) if member.name.is_empty() => "_unnamed".to_owned(),
            (Format::Ctf18, true) => format!("_{}", identifier(&member.name)),
            (Format::Ctf18, false) if self.scope == Scope::PacketContext => {
                format!("_{}", member.name)
            }
            // Its underscore tells it apart from another member: other readers would drop one.
            (Format::Ctf18, false) if shown_name(&member.declared_name) != &*member.name => {
                format!("_{}", member.name)
            }
            (Format::Ctf18, false) => member.declared_name.to_string(),
            (Format::Ctf2, _) => member.name.to_string(),
        }
    }

    fn shown<'n>(&self, declared: &'n str) -> &'n str {
        if self.lowering.format == Format::Ctf18 {
            shown_name(declared)
        } else {
            declared
        }
    }

    fn member(&self, declared: &Arc<str>, class: FieldClass) -> Member {
        Member {
            name: Arc::from(self.shown(declared)),
            declared_name: Arc::clone(declared),
            class,
            attributes: Attributes::default(),
        }
    }

    fn class(&mut self, from: &FieldClass) -> (FieldClass, Write) {
        let old = self.lowering.format == Format::Ctf18;
        if let Some(slot) = self.lowering.note(from) {
            self.lowering.targets.insert(
                slot,
                Target {
                    scope: self.scope,
                    path: self.here.clone(),
                },
            );
            // An integer that is written as text cannot be a length or selector.
            if old && matches!(from, FieldClass::Wide(class) if class.is_integer()) {
                self.lowering.targets.remove(&slot);
            }
        }
        match from {
            FieldClass::Integer(from) => (FieldClass::Integer(widened(from)), number(from)),
            FieldClass::Enum(from) => {
                let class = EnumClass {
                    integer: widened(&from.integer),
                    mappings: Arc::clone(&from.mappings),
                };
                (FieldClass::Enum(class), number(&from.integer))
            }
            FieldClass::BitArray(from) if old => {
                (FieldClass::Integer(hexadecimal(from)), number(from))
            }
            FieldClass::BitArray(from) => (FieldClass::BitArray(widened(from)), number(from)),
            FieldClass::BitMap(from) if old => {
                let mappings = single_bits(&from.flags, from.integer.size);
                (
                    FieldClass::Enum(EnumClass {
                        integer: hexadecimal(&from.integer),
                        mappings,
                    }),
                    number(&from.integer),
                )
            }
            FieldClass::BitMap(from) => {
                let class = crate::class::BitMapClass {
                    integer: widened(&from.integer),
                    flags: Arc::clone(&from.flags),
                };
                (FieldClass::BitMap(class), number(&from.integer))
            }
            FieldClass::Bool(from) => {
                let class = IntegerClass {
                    attributes: from.attributes.clone(),
                    ..super::framing::unsigned(1)
                };
                (
                    if old {
                        FieldClass::Integer(class)
                    } else {
                        FieldClass::Bool(class)
                    },
                    Write::Bool(from.clone()),
                )
            }
            FieldClass::Wide(from) => wide(from, old),
            FieldClass::VarInt(from) => leb(from, old),
            FieldClass::Float(from) => float(from, old),
            FieldClass::String(from) => self.string(from),
            FieldClass::Blob(from) => self.blob(from),
            FieldClass::Struct(from) => {
                let (class, write) = self.structure(from, &[]);
                (FieldClass::Struct(class), Write::Struct(write))
            }
            FieldClass::Array(from) if from.text => self.text_array(from),
            FieldClass::Array(from) => self.array(from),
            FieldClass::Variant(from) => self.variant(from),
            FieldClass::Optional(from) => self.optional(from),
        }
    }

    fn inside(&mut self, step: Step, from: &FieldClass) -> (FieldClass, Write) {
        self.here.push(step);
        let made = self.class(from);
        self.here.pop();
        made
    }

    fn string(&mut self, from: &StringClass) -> (FieldClass, Write) {
        let old = self.lowering.format == Format::Ctf18;
        if old
            && (from.encoding != TextEncoding::Utf8
                || matches!(from.length, StringLength::Terminated))
        {
            let write = match from.encoding {
                // Bytes that are not text are copied unchanged.
                TextEncoding::Utf8 => Write::Bytes {
                    length: StringLength::Terminated,
                    unit: 1,
                },
                encoding => Write::Text {
                    length: from.length.clone(),
                    encoding,
                },
            };
            return (
                FieldClass::String(StringClass {
                    attributes: from.attributes.clone(),
                    ..StringClass::terminated()
                }),
                write,
            );
        }
        let write = Write::Bytes {
            length: from.length.clone(),
            unit: from.encoding.unit(),
        };
        let class = match self.string_length(&from.length) {
            Some(length) if old => characters(length, &from.attributes),
            length => {
                let length = length.map_or(StringLength::Terminated, to_bytes);
                FieldClass::String(StringClass {
                    length,
                    encoding: from.encoding,
                    attributes: from.attributes.clone(),
                })
            }
        };
        (class, write)
    }

    fn blob(&mut self, from: &BlobClass) -> (FieldClass, Write) {
        let write = Write::Bytes {
            length: from.length.clone(),
            unit: 1,
        };
        let length = self
            .string_length(&from.length)
            .unwrap_or(Length::Static(0));
        let class = match self.lowering.format {
            Format::Ctf18 => {
                let byte = IntegerClass {
                    base: Base::Hexadecimal,
                    ..super::framing::unsigned(1)
                };
                FieldClass::Array(ArrayClass::new(FieldClass::Integer(byte), length))
            }
            Format::Ctf2 => FieldClass::Blob(BlobClass {
                length: to_bytes(length),
                roles: Roles::NONE,
                ..from.clone()
            }),
        };
        (class, write)
    }

    /// Lowers an array of characters.
    fn text_array(&mut self, from: &ArrayClass) -> (FieldClass, Write) {
        let length = match &from.length {
            Length::Static(length) => StringLength::Static(*length),
            Length::Dynamic(location) => StringLength::Dynamic(location.clone()),
        };
        let write = Write::Bytes { length, unit: 1 };
        let length = self.length(&from.length);
        let class = match self.lowering.format {
            Format::Ctf18 => characters(length, &from.attributes),
            Format::Ctf2 => FieldClass::String(StringClass {
                length: to_bytes(length),
                encoding: TextEncoding::Utf8,
                attributes: from.attributes.clone(),
            }),
        };
        (class, write)
    }

    fn array(&mut self, from: &ArrayClass) -> (FieldClass, Write) {
        let length = self.length(&from.length);
        let (element, write) = self.inside(Step::Element, &from.element);
        let write = Write::Array {
            length: from.linked_length(),
            alignment: from.element.alignment().max(from.minimum_alignment),
            element: Box::new(write),
        };
        (
            FieldClass::Array(ArrayClass {
                attributes: from.attributes.clone(),
                ..ArrayClass::new(element, length)
            }),
            write,
        )
    }

    fn variant(&mut self, from: &VariantClass) -> (FieldClass, Write) {
        let slot = from.selector.slot;
        let old = self.lowering.format == Format::Ctf18;
        let mut names = Names::default();
        let names: Vec<Arc<str>> = from
            .options
            .iter()
            .map(|option| match self.name(option) {
                // Options of CTF 2 need no names, and several may be unnamed.
                name if name.is_empty() => Arc::from(name),
                name => names.free(name).into(),
            })
            .collect();
        let mut chosen = match &from.ranges {
            Some(ranges) if !old => ranges.clone(),
            _ => disjoint(&from.choices, from.options.len()),
        };
        // A written enumeration keeps the source's labels, and a variant keeps the names of its
        // options.
        let kept = if old && from.ranges.is_some() {
            None
        } else {
            self.resolve(slot)
        };
        // babeltrace2 does not accept an absolute path between angle brackets.
        let kept = kept.filter(|location| !old || location.origin == Origin::Nearest);
        // Nor does it accept an option whose name is not exactly a label.
        let kept =
            kept.filter(|_| !old || names.iter().all(|name| self.lowering.has_label(slot, name)));
        let by_option = old && kept.is_none() && self.lowering.wide.contains_key(&slot);
        if by_option {
            let ever = |option: usize| {
                from.choices
                    .iter()
                    .any(|choice| choice.option as usize == option)
            };
            let only = |option: usize| {
                if ever(option) {
                    vec![IntRange::new(option as i128, option as i128)]
                } else {
                    Vec::new()
                }
            };
            chosen = (0..from.options.len()).map(only).collect();
        } else if old && kept.is_none() {
            let signed = self.lowering.signed.get(&slot).copied().unwrap_or(false);
            chosen.iter_mut().for_each(|ranges| {
                *ranges = ranges
                    .iter()
                    .filter_map(|range| within(range, signed))
                    .collect()
            });
        }
        let all = old && kept.is_some();
        let choices = by_option.then(|| Arc::clone(&from.choices));
        let selector = kept.unwrap_or_else(|| self.copy_selector(slot, &names, &chosen, choices));
        let (mut options, mut writes, mut ranges) = (Vec::new(), Vec::new(), Vec::new());
        for (index, ((option, name), chosen)) in
            from.options.iter().zip(&names).zip(chosen).enumerate()
        {
            let (class, write) = self.inside(Step::Option(index), &option.class);
            writes.push(write);
            // Some readers reject an option that no value selects.
            if all || !chosen.is_empty() {
                options.push(Member {
                    attributes: option.attributes.clone(),
                    ..self.member(name, class)
                });
                ranges.push(chosen);
            }
        }
        if options.is_empty() {
            let nothing = FieldClass::Struct(StructClass::new(Vec::new(), 8));
            options.push(self.member(&Arc::from(NOTHING), nothing));
            ranges.push(vec![IntRange::new(0, 0)]);
        }
        let class = VariantClass::new(selector, options, (!old).then_some(ranges));
        let class = VariantClass {
            attributes: from.attributes.clone(),
            ..class
        };
        (
            FieldClass::Variant(class),
            Write::Variant {
                slot,
                choices: Arc::clone(&from.choices),
                options: writes,
                clears: Arc::clone(&from.clears),
            },
        )
    }

    /// Copies a selector: in CTF 1.8 as an enumeration of the options' names; if the value may
    /// exceed 64 bits, as the index of the option, given by `choices`.
    fn copy_selector(
        &mut self,
        slot: u32,
        names: &[Arc<str>],
        chosen: &[Vec<IntRange>],
        choices: Option<Arc<[Choice]>>,
    ) -> FieldLocation {
        let signed = choices.is_none() && self.lowering.signed.get(&slot).copied().unwrap_or(false);
        let integer = IntegerClass {
            signed,
            ..super::framing::unsigned(8)
        };
        let class = match self.lowering.format {
            Format::Ctf2 => return self.copy_number("tag", slot),
            Format::Ctf18 => {
                let mappings = names.iter().zip(chosen).flat_map(|(name, ranges)| {
                    ranges.iter().map(|range| Mapping {
                        label: Arc::clone(name),
                        range: range.clone(),
                    })
                });
                let mut mappings: Vec<Mapping> = mappings.collect();
                if mappings.is_empty() {
                    mappings.push(Mapping::new(Arc::from(NOTHING), 0, 0));
                }
                FieldClass::Enum(EnumClass {
                    integer,
                    mappings: mappings.into(),
                })
            }
        };
        let copy = choices.map_or(Copy::Number(slot), |choices| Copy::Option(slot, choices));
        self.copy("tag", class, copy)
    }

    /// Copies an integer, for CTF 2.
    fn copy_number(&mut self, what: &str, slot: u32) -> FieldLocation {
        let signed = self.lowering.signed.get(&slot).copied().unwrap_or(false);
        match self.lowering.wide.get(&slot) {
            // Zeros are written in place of an absent field, so its size is limited.
            Some(Some(size)) if *size <= MOST_COPIED => {
                let bytes = size.div_ceil(8);
                let class = WideClass::new(bytes.saturating_mul(8), 8, signed, ByteOrder::Little);
                return self.copy(what, FieldClass::Wide(class), Copy::Wide(slot, bytes));
            }
            Some(_) => {
                return self.copy(
                    what,
                    FieldClass::VarInt(VarIntClass::new(signed)),
                    Copy::Leb(slot, signed),
                );
            }
            None => {}
        }
        let integer = IntegerClass {
            signed,
            ..super::framing::unsigned(8)
        };
        self.copy(what, FieldClass::Integer(integer), Copy::Number(slot))
    }

    /// Lowers an optional field: in CTF 1.8, to a sequence of at most one element.
    fn optional(&mut self, from: &OptionalClass) -> (FieldClass, Write) {
        let test = Test {
            slot: from.selector.slot,
            ranges: from.ranges.clone(),
        };
        let byte = super::framing::unsigned(1);
        let old = self.lowering.format == Format::Ctf18;
        let selector = if old {
            self.copy(
                "length",
                FieldClass::Integer(byte),
                Copy::There(test.clone()),
            )
        } else if let Some(location) = self.resolve(test.slot) {
            location
        } else if from.ranges.is_none() {
            self.copy("tag", FieldClass::Bool(byte), Copy::There(test.clone()))
        } else {
            self.copy_number("tag", test.slot)
        };
        let step = if old { Step::Element } else { Step::Option(0) };
        let (class, write) = self.inside(step, &from.class);
        let attributes = from.attributes.clone();
        let class = match self.lowering.format {
            Format::Ctf18 => FieldClass::Array(ArrayClass {
                attributes,
                ..ArrayClass::new(class, Length::Dynamic(selector))
            }),
            Format::Ctf2 => FieldClass::Optional(OptionalClass {
                attributes,
                ..OptionalClass::new(selector, from.ranges.clone(), class)
            }),
        };
        (
            class,
            Write::Optional {
                test,
                class: Box::new(write),
                clears: Arc::clone(&from.clears),
            },
        )
    }

    /// The length as written; `None` for zero-terminated text.
    fn string_length(&mut self, length: &StringLength) -> Option<Length> {
        match length {
            StringLength::Terminated => None,
            StringLength::Static(length) => Some(Length::Static(*length)),
            StringLength::Dynamic(location) => {
                Some(self.length(&Length::Dynamic(location.clone())))
            }
        }
    }

    fn length(&mut self, length: &Length) -> Length {
        let slot = match length {
            Length::Static(length) => return Length::Static(*length),
            Length::Dynamic(location) => location.slot,
        };
        let location = self.resolve(slot).unwrap_or_else(|| {
            let integer = FieldClass::Integer(super::framing::unsigned(8));
            self.copy("length", integer, Copy::Number(slot))
        });
        Length::Dynamic(location)
    }

    /// Adds a copy of a value before the current member; returns its location.
    fn copy(&mut self, what: &str, class: FieldClass, copy: Copy) -> FieldLocation {
        let old = self.lowering.format == Format::Ctf18;
        let current = self
            .open
            .last()
            .map(|open| Arc::clone(&open.current))
            .unwrap_or_else(|| Arc::from(""));
        let wanted = format!(
            "{}_{}_{what}",
            if old { "_" } else { "" },
            self.shown(&current)
        );
        let name: Arc<str> = match self.open.last_mut() {
            Some(open) => open.names.free(wanted).into(),
            None => wanted.into(),
        };
        let member = self.member(&name, class);
        if let Some(open) = self.open.last_mut() {
            open.needed.push((member, copy));
        }
        location(
            if old { Origin::Nearest } else { Origin::Here },
            vec![Some(name)],
        )
    }

    /// The location of a preceding field as seen from here, if it can be named.
    fn resolve(&self, slot: u32) -> Option<FieldLocation> {
        let old = self.lowering.format == Format::Ctf18;
        let Target { scope, path } = self.lowering.targets.get(&slot)?;
        if *scope != self.scope {
            return Some(location(Origin::Scope(*scope), members(path, old)?));
        }
        let common = path
            .iter()
            .zip(&self.here)
            .take_while(|(a, b)| a == b)
            .count();
        let rest = members(path.get(common..)?, old)?;
        let inner: Vec<&Open> = self
            .open
            .iter()
            .filter(|open| open.depth > common)
            .collect();
        if !old {
            let up = std::iter::repeat_n(None, inner.len());
            return Some(location(Origin::Here, up.chain(rest).collect()));
        }
        // A nearer member of the same name, in either spelling, would shadow the field.
        let first = rest.first()?.as_deref()?;
        let hides = |name: &Arc<str>| {
            **name == *first || shown_name(name) == first || shown_name(first) == &**name
        };
        if !inner.iter().any(|open| open.made.iter().any(hides)) {
            return Some(location(Origin::Nearest, rest));
        }
        Some(location(Origin::Scope(*scope), members(path, old)?))
    }
}

fn location(origin: Origin, path: Vec<Option<Arc<str>>>) -> FieldLocation {
    FieldLocation::new(origin, path, Position::START)
}

/// The names of a path; CTF 2 does not name options in it.
fn members(path: &[Step], old: bool) -> Option<Vec<Option<Arc<str>>>> {
    let steps = path
        .iter()
        .filter(|step| old || !matches!(step, Step::Option(_)));
    steps
        .map(|step| match step {
            Step::Member(name) => Some(Some(Arc::clone(name))),
            _ => None,
        })
        .collect()
}

/// Whether the framing already has the field.
fn has_role(class: &FieldClass) -> bool {
    match class {
        FieldClass::Struct(_) | FieldClass::Array(_) => false,
        class => !class.roles().is_empty(),
    }
}

/// Larger integers, in bits, are copied as LEB128.
const MOST_COPIED: u64 = 4096;

/// The only option of a variant without selectable options.
const NOTHING: &str = "_none";

/// The part of a range that a 64-bit integer can hold.
pub(super) fn within(range: &IntRange, signed: bool) -> Option<IntRange> {
    let (least, most) = if signed {
        (i64::MIN.into(), i64::MAX.into())
    } else {
        (0, u64::MAX.into())
    };
    let (low, high) = (range.low.max(least), range.high.min(most));
    (low <= high).then(|| IntRange::new(low, high))
}

/// The part of a mapping that an integer can hold: in CTF 2, ranges of unsigned integers must not
/// be negative.
pub(super) fn possible(mapping: &Mapping, signed: bool) -> Option<Mapping> {
    Some(Mapping {
        label: Arc::clone(&mapping.label),
        range: within(&mapping.range, signed)?,
    })
}

fn bytes_of(size: u8) -> u8 {
    size.div_ceil(8).next_power_of_two()
}

/// The integer byte-aligned, of whole bytes and without roles.
fn widened(from: &IntegerClass) -> IntegerClass {
    IntegerClass {
        base: from.base,
        attributes: from.attributes.clone(),
        ..IntegerClass::new(bytes_of(from.size) * 8, 8, from.signed, ByteOrder::Little)
    }
}

fn hexadecimal(from: &IntegerClass) -> IntegerClass {
    IntegerClass {
        base: Base::Hexadecimal,
        ..widened(from)
    }
}

fn number(from: &IntegerClass) -> Write {
    Write::Integer {
        from: from.clone(),
        bytes: bytes_of(from.size),
    }
}

/// The flags of a bit map as enumeration values with one bit set.
fn single_bits(flags: &[Mapping], size: u8) -> Arc<[Mapping]> {
    let bits = flags.iter().flat_map(|flag| {
        let bits = (0..size.min(64)).filter(|bit| flag.holds((*bit).into()));
        bits.map(|bit| Mapping::new(Arc::clone(&flag.label), 1 << bit, 1 << bit))
    });
    bits.collect()
}

/// Lowers a wide integer: in CTF 1.8, which has no such integers, to text, which every reader
/// shows.
fn wide(from: &WideClass, old: bool) -> (FieldClass, Write) {
    let attributes = from.attributes.clone();
    let bytes = from.size.div_ceil(8);
    match &from.kind {
        WideKind::Bool => {
            let class = IntegerClass {
                attributes,
                ..super::framing::unsigned(1)
            };
            (
                if old {
                    FieldClass::Integer(class)
                } else {
                    FieldClass::Bool(class)
                },
                Write::WideBool(from.clone()),
            )
        }
        _ if old => {
            let class = StringClass {
                attributes,
                ..StringClass::terminated()
            };
            (FieldClass::String(class), Write::WideText(from.clone()))
        }
        kind => {
            let class = WideClass::new(bytes.saturating_mul(8), 8, from.signed, ByteOrder::Little);
            let class = WideClass {
                base: from.base,
                kind: kind.clone(),
                attributes,
                ..class
            };
            (
                FieldClass::Wide(class),
                Write::Wide {
                    from: from.clone(),
                    bytes,
                },
            )
        }
    }
}

fn leb(from: &VarIntClass, old: bool) -> (FieldClass, Write) {
    let write = Write::Leb {
        signed: from.signed,
        slot: from.slot,
        fixed: old,
    };
    if !old {
        return (
            FieldClass::VarInt(VarIntClass {
                roles: Roles::NONE,
                slot: NO_SLOT,
                ..from.clone()
            }),
            write,
        );
    }
    let integer = IntegerClass {
        base: from.base,
        ..IntegerClass::new(64, 8, from.signed, ByteOrder::Little)
    };
    let class = match &from.mappings {
        Some(mappings) => FieldClass::Enum(EnumClass {
            integer,
            mappings: Arc::clone(mappings),
        }),
        None => FieldClass::Integer(integer),
    };
    (class, write)
}

/// Lowers a float: readers of CTF 1.8 support 32 and 64 bits.
fn float(from: &FloatClass, old: bool) -> (FieldClass, Write) {
    let bytes = match (from.size / 8, old) {
        (2, true) => 4,
        (16, true) => 8,
        (bytes, _) => bytes,
    };
    let class = FloatClass {
        size: bytes.saturating_mul(8),
        alignment: 8,
        byte_order: ByteOrder::Little,
        bit_order: BitOrder::Natural,
        attributes: from.attributes.clone(),
    };
    (
        FieldClass::Float(class),
        Write::Float {
            from: from.clone(),
            bytes,
        },
    )
}

/// Text of a given length in CTF 1.8.
fn characters(length: Length, attributes: &Attributes) -> FieldClass {
    let character = IntegerClass {
        encoding: Encoding::Utf8,
        ..super::framing::unsigned(1)
    };
    let class = ArrayClass::new(FieldClass::Integer(character), length);
    FieldClass::Array(ArrayClass {
        text: true,
        attributes: attributes.clone(),
        ..class
    })
}

fn to_bytes(length: Length) -> StringLength {
    match length {
        Length::Static(length) => StringLength::Static(length),
        Length::Dynamic(location) => StringLength::Dynamic(location),
    }
}
