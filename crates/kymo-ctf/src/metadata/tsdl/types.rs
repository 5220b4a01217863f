//! Resolves type names in their scopes and checks every attribute.
//!
//! The result shares aliased types, so its size is proportional to the text. Byte orders may still
//! be `native`, and lengths and tags are still paths: both depend on where a type is used
//! ([`super::instantiate`]).

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use super::ast::{
    Assignment, At, Declaration, Declarator, Entry, Enumerator, Expression, Length, Path, TypeSpec,
};
use super::attributes;
use super::names::{canonical, is_absolute};
use crate::class::{Base, ByteOrder, Encoding, Mapping, Unit};
use crate::error::{MetadataError, Position};

/// Limit on the depth of types, aliases included, so that no text can exhaust the stack.
const MAX_DEPTH: u32 = 64;

/// A type whose names are resolved.
#[derive(Debug)]
pub(crate) struct Type {
    pub(crate) kind: TypeKind,
    depth: u32,
}

impl Type {
    /// Whether this is a variant without a tag, or an array of such variants.
    fn lacks_tag(&self) -> bool {
        match &self.kind {
            TypeKind::Variant { tag, .. } => tag.is_none(),
            TypeKind::Array { element, .. } => element.lacks_tag(),
            _ => false,
        }
    }

    /// Position of the first member of this name, including nested ones.
    pub(crate) fn member_position(&self, name: &str) -> Option<Position> {
        let members = match &self.kind {
            TypeKind::Struct { members, .. }
            | TypeKind::Variant {
                options: members, ..
            } => members,
            TypeKind::Array { element, .. } => return element.member_position(name),
            _ => return None,
        };
        let here = members
            .iter()
            .find(|member| &*member.name == name)
            .map(|member| member.position);
        here.or_else(|| {
            members
                .iter()
                .find_map(|member| member.of.member_position(name))
        })
    }
}

#[derive(Debug)]
pub(crate) enum TypeKind {
    Integer(IntegerType),
    Float(FloatType),
    String,
    Enum {
        integer: IntegerType,
        mappings: Arc<[Mapping]>,
    },
    /// `body` is the unique number of the structure's body in the text.
    Struct {
        members: Vec<MemberType>,
        align: u32,
        body: u32,
    },
    Array {
        element: Rc<Type>,
        length: Reference<Length>,
    },
    Variant {
        tag: Option<Reference<Path>>,
        options: Vec<MemberType>,
    },
}

/// A length or tag, with the number of the structure body in which it was written (0: none). The
/// lookup of a relative path begins there.
#[derive(Debug, Clone)]
pub(crate) struct Reference<T> {
    pub(crate) at: At<T>,
    pub(crate) body: u32,
}

#[derive(Debug, Clone)]
pub(crate) struct IntegerType {
    pub(crate) size: u8,
    pub(crate) alignment: u32,
    pub(crate) signed: bool,
    pub(crate) byte_order: Option<ByteOrder>,
    pub(crate) base: Base,
    pub(crate) encoding: Encoding,
    pub(crate) clock: Option<At<Arc<str>>>,
    /// The storage unit of a C bit-field.
    pub(crate) unit: Option<Unit>,
}

#[derive(Debug)]
pub(crate) struct FloatType {
    pub(crate) size: u8,
    pub(crate) alignment: u32,
    pub(crate) byte_order: Option<ByteOrder>,
}

#[derive(Debug, Clone)]
pub(crate) struct MemberType {
    pub(crate) name: Arc<str>,
    pub(crate) position: Position,
    pub(crate) of: Rc<Type>,
}

/// The four name spaces of TSDL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Space {
    Alias,
    /// C types by [`canonical`] names, which do not depend on the order of the words.
    CType,
    Struct,
    Enum,
    Variant,
}

impl Space {
    fn noun(self) -> &'static str {
        match self {
            Space::Alias | Space::CType => "type",
            Space::Struct => "struct",
            Space::Enum => "enum",
            Space::Variant => "variant",
        }
    }
}

/// The open scopes, innermost last.
#[derive(Debug, Default)]
pub(crate) struct Scopes {
    scopes: Vec<HashMap<(Space, String), Rc<Type>>>,
    /// Number of structure bodies so far, and the open ones, innermost last.
    bodies: u32,
    open_bodies: Vec<u32>,
    /// Clocks to which integers are mapped, in the order of the text. Their blocks may come later.
    clocks: Vec<At<Arc<str>>>,
    /// Names of all members, and the paths of all lengths and tags.
    members: HashSet<String>,
    paths: Vec<At<Path>>,
}

type Checked<T> = Result<T, MetadataError>;

impl Scopes {
    pub(crate) fn new() -> Self {
        Scopes {
            scopes: vec![HashMap::new()],
            ..Scopes::default()
        }
    }

    /// Clocks to which integers are mapped, in the order of the text.
    pub(crate) fn clocks(&self) -> &[At<Arc<str>>] {
        &self.clocks
    }

    /// Checks that every length and tag can name a field, also in types that nothing uses.
    pub(crate) fn check_paths(&self) -> Checked<()> {
        let is_member = |name: &String| {
            self.members.contains(name)
                || self.members.contains(&format!("_{name}"))
                || name
                    .strip_prefix('_')
                    .is_some_and(|name| self.members.contains(name))
        };
        let wrong = self.paths.iter().find(|path| {
            let first = path.value.first();
            !is_absolute(&path.value) && !first.is_some_and(is_member)
        });
        wrong.map_or(Ok(()), |path| {
            let message = format!(
                "no field `{}` is read before this one",
                attributes::dotted(&path.value)
            );
            Err(MetadataError::new(path.position, message))
        })
    }

    /// Runs `inside` in a nested scope.
    pub(crate) fn nested<T>(&mut self, inside: impl FnOnce(&mut Self) -> Checked<T>) -> Checked<T> {
        self.scopes.push(HashMap::new());
        let result = inside(self);
        self.scopes.pop();
        result
    }

    fn define(&mut self, space: Space, name: &str, at: Position, of: Rc<Type>) -> Checked<()> {
        if let Some(scope) = self.scopes.last_mut()
            && scope
                .insert((space, name.to_owned()), Rc::clone(&of))
                .is_some()
        {
            return Err(MetadataError::new(
                at,
                format!(
                    "the {} `{name}` is defined twice in this scope",
                    space.noun()
                ),
            ));
        }
        if let (Space::Alias, Some(words), Some(scope)) =
            (space, canonical(name), self.scopes.last_mut())
        {
            scope.entry((Space::CType, words)).or_insert(of);
        }
        Ok(())
    }

    fn find(&self, space: Space, name: &str, at: Position) -> Checked<Rc<Type>> {
        let key = (space, name.to_owned());
        // A C type may be named by the same words in another order.
        let other = canonical(name)
            .filter(|_| space == Space::Alias)
            .map(|words| (Space::CType, words));
        let found = self
            .scopes
            .iter()
            .rev()
            .find_map(|scope| scope.get(&key).or_else(|| scope.get(other.as_ref()?)));
        found.cloned().ok_or_else(|| {
            MetadataError::new(
                at,
                format!("no {} `{name}` is defined before this", space.noun()),
            )
        })
    }

    pub(crate) fn declare(&mut self, declaration: &Declaration) -> Checked<()> {
        match declaration {
            Declaration::Alias { of, names } => {
                let base = self.base(of, names)?;
                for declarator in names {
                    let of = self.declared(base.as_ref(), of, declarator)?;
                    let At { position, value } = &declarator.name;
                    self.define(Space::Alias, value, *position, of)?;
                }
                Ok(())
            }
            Declaration::Named(of) => self.resolve(of).map(drop),
        }
    }

    /// The type before some declarators; `None` if all of them are pointers, as the type then need
    /// not be defined.
    fn base(&mut self, spec: &At<TypeSpec>, names: &[Declarator]) -> Checked<Option<Rc<Type>>> {
        let needed = names.iter().any(|declarator| declarator.stars == 0);
        if needed {
            self.resolve(spec).map(Some)
        } else {
            Ok(None)
        }
    }

    /// The type of one declarator: an alias if it has stars, a bit-field if `:N`, an array if
    /// brackets.
    fn declared(
        &mut self,
        base: Option<&Rc<Type>>,
        spec: &At<TypeSpec>,
        declarator: &Declarator,
    ) -> Checked<Rc<Type>> {
        let at = declarator.name.position;
        let mut of = if let (0, Some(base)) = (declarator.stars, base) {
            Rc::clone(base)
        } else {
            let name = match &spec.value {
                TypeSpec::Alias(name) => name.clone(),
                TypeSpec::Struct {
                    name: Some(name), ..
                } => format!("struct {}", name.value),
                TypeSpec::Enum {
                    name: Some(name), ..
                } => format!("enum {}", name.value),
                TypeSpec::Variant {
                    name: Some(name), ..
                } => format!("variant {}", name.value),
                _ => {
                    return Err(MetadataError::new(
                        spec.position,
                        "a pointer to a type without a name has no alias",
                    ));
                }
            };
            self.find(
                Space::Alias,
                &(name + &" *".repeat(declarator.stars)),
                spec.position,
            )?
        };
        if let Some(bits) = &declarator.bits {
            if !declarator.dimensions.is_empty() {
                return Err(MetadataError::new(
                    bits.position,
                    "a bit-field cannot be an array",
                ));
            }
            of = bit_field(&of, bits)?;
        }
        for length in &declarator.dimensions {
            if let Length::Field(path) = &length.value {
                self.paths.push(At {
                    position: length.position,
                    value: path.clone(),
                });
            }
        }
        arrays(&of, &declarator.dimensions, at, self.body())
    }

    /// The innermost open structure body.
    fn body(&self) -> u32 {
        self.open_bodies.last().copied().unwrap_or(0)
    }

    /// Resolves `spec` in the open scopes. A named body is also defined in the innermost scope.
    pub(crate) fn resolve(&mut self, spec: &At<TypeSpec>) -> Checked<Rc<Type>> {
        let position = spec.position;
        match &spec.value {
            TypeSpec::Integer(attributes) => {
                let integer = integer(attributes, position)?;
                self.clocks.extend(integer.clock.clone());
                Ok(simple(TypeKind::Integer)(integer))
            }
            TypeSpec::Float(attributes) => float(attributes, position).map(simple(TypeKind::Float)),
            TypeSpec::String(attributes) => {
                string(attributes).map(|()| simple(|()| TypeKind::String)(()))
            }
            TypeSpec::Alias(name) => self.find(Space::Alias, name, position),
            TypeSpec::Enum {
                name,
                container,
                body,
            } => {
                let Some(body) = body else {
                    return self.named(Space::Enum, name.as_ref(), position);
                };
                let (container, at) = match container {
                    Some(container) => (self.resolve(container)?, container.position),
                    // As in C, an enumeration without a type is an `int`.
                    None => (self.find(Space::Alias, "int", position)?, position),
                };
                let TypeKind::Integer(integer) = &container.kind else {
                    return Err(MetadataError::new(
                        at,
                        "an enumeration must be stored as an integer",
                    ));
                };
                let kind = TypeKind::Enum {
                    integer: integer.clone(),
                    mappings: mappings(body, integer)?,
                };
                self.finish(Space::Enum, name.as_ref(), position, kind)
            }
            TypeSpec::Struct { name, body, align } => {
                let align = align.as_ref().map_or(Ok(1), attributes::alignment_of)?;
                let Some(body) = body else {
                    let found = self.named(Space::Struct, name.as_ref(), position)?;
                    return match &found.kind {
                        TypeKind::Struct {
                            members,
                            align: own,
                            body,
                        } if align > *own => make(
                            TypeKind::Struct {
                                members: members.clone(),
                                align,
                                body: *body,
                            },
                            position,
                        ),
                        _ => Ok(found),
                    };
                };
                self.bodies += 1;
                let number = self.bodies;
                self.open_bodies.push(number);
                let members = self.nested(|scopes| scopes.members(body));
                self.open_bodies.pop();
                let kind = TypeKind::Struct {
                    members: members?,
                    align,
                    body: number,
                };
                self.finish(Space::Struct, name.as_ref(), position, kind)
            }
            TypeSpec::Variant { name, tag, body } => {
                self.paths.extend(tag.clone());
                match body {
                    Some(body) => {
                        let options = self.nested(|scopes| scopes.members(body))?;
                        if options.is_empty() {
                            return Err(MetadataError::new(
                                position,
                                "a variant needs at least one option",
                            ));
                        }
                        let tag = tag.clone().map(|at| Reference {
                            at,
                            body: self.body(),
                        });
                        let kind = TypeKind::Variant { tag, options };
                        self.finish(Space::Variant, name.as_ref(), position, kind)
                    }
                    None => {
                        let found = self.named(Space::Variant, name.as_ref(), position)?;
                        match (tag, &found.kind) {
                            // A variant that was declared without a tag gets one where it is used.
                            (Some(tag), TypeKind::Variant { tag: None, options }) => {
                                let tag = Some(Reference {
                                    at: tag.clone(),
                                    body: self.body(),
                                });
                                let options = options.clone();
                                make(TypeKind::Variant { tag, options }, position)
                            }
                            (Some(tag), _) => Err(MetadataError::new(
                                tag.position,
                                "this variant has a tag already",
                            )),
                            (None, _) => Ok(found),
                        }
                    }
                }
            }
        }
    }

    /// Resolves `struct NAME`, `enum NAME` or `variant NAME`.
    fn named(&self, space: Space, name: Option<&At<String>>, at: Position) -> Checked<Rc<Type>> {
        let (name, at) = name.map_or(("", at), |name| (&name.value, name.position));
        self.find(space, name, at)
    }

    fn finish(
        &mut self,
        space: Space,
        name: Option<&At<String>>,
        at: Position,
        kind: TypeKind,
    ) -> Checked<Rc<Type>> {
        let made = make(kind, at)?;
        if let Some(name) = name {
            self.define(space, &name.value, name.position, Rc::clone(&made))?;
        }
        Ok(made)
    }

    fn members(&mut self, entries: &[Entry]) -> Checked<Vec<MemberType>> {
        let mut members: Vec<MemberType> = Vec::new();
        let mut known = HashSet::new();
        for entry in entries {
            let (of, names) = match entry {
                Entry::Declaration(declaration) => {
                    self.declare(declaration)?;
                    continue;
                }
                Entry::Fields { of, names } => (of, names),
            };
            let base = self.base(of, names)?;
            for declarator in names {
                let At { position, value } = &declarator.name;
                if !known.insert(value) {
                    return Err(MetadataError::new(
                        *position,
                        format!("there are two fields `{value}` in one structure or variant"),
                    ));
                }
                let declared = self.declared(base.as_ref(), of, declarator)?;
                if declared.lacks_tag() {
                    return Err(MetadataError::new(
                        *position,
                        "this variant is used without a tag",
                    ));
                }
                self.members.insert(value.clone());
                members.push(MemberType {
                    name: Arc::from(value.as_str()),
                    position: *position,
                    of: declared,
                });
            }
        }
        Ok(members)
    }
}

fn simple<T>(kind: impl FnOnce(T) -> TypeKind) -> impl FnOnce(T) -> Rc<Type> {
    |inner| {
        let kind = kind(inner);
        Rc::new(Type { kind, depth: 1 })
    }
}

fn make(kind: TypeKind, at: Position) -> Checked<Rc<Type>> {
    let inner = match &kind {
        TypeKind::Struct { members: inner, .. } | TypeKind::Variant { options: inner, .. } => inner
            .iter()
            .map(|member| member.of.depth)
            .max()
            .unwrap_or(0),
        TypeKind::Array { element, .. } => element.depth,
        _ => 0,
    };
    let depth = inner + 1;
    if depth > MAX_DEPTH {
        return Err(MetadataError::new(
            at,
            format!("types are nested more than {MAX_DEPTH} deep, which is not supported"),
        ));
    }
    Ok(Rc::new(Type { kind, depth }))
}

/// `base[a][b]`: an array of `a` arrays of `b`, as in C.
fn arrays(
    base: &Rc<Type>,
    dimensions: &[At<Length>],
    at: Position,
    body: u32,
) -> Checked<Rc<Type>> {
    dimensions
        .iter()
        .rev()
        .try_fold(Rc::clone(base), |element, length| {
            let length = Reference {
                at: length.clone(),
                body,
            };
            make(TypeKind::Array { element, length }, at)
        })
}

/// `name : bits`: an integer of this many bits, packed into units of its type.
fn bit_field(base: &Rc<Type>, bits: &At<u64>) -> Checked<Rc<Type>> {
    let TypeKind::Integer(integer) = &base.kind else {
        return Err(MetadataError::new(
            bits.position,
            "a bit-field must be an integer",
        ));
    };
    let size = u8::try_from(bits.value)
        .ok()
        .filter(|size| (1..=integer.size).contains(size));
    let size = size.ok_or_else(|| {
        MetadataError::new(
            bits.position,
            format!("this bit-field can have 1 to {} bits", integer.size),
        )
    })?;
    let unit = Some(Unit {
        size: integer.size,
        alignment: integer.alignment,
    });
    make(
        TypeKind::Integer(IntegerType {
            size,
            alignment: 1,
            unit,
            ..integer.clone()
        }),
        bits.position,
    )
}

fn integer(given: &[Assignment], position: Position) -> Checked<IntegerType> {
    attributes::refuse_repeated(&given.iter().collect::<Vec<_>>())?;
    let mut size = None;
    let mut alignment = None;
    let mut integer = IntegerType {
        size: 0,
        alignment: 1,
        signed: false,
        byte_order: None,
        base: Base::Decimal,
        encoding: Encoding::None,
        clock: None,
        unit: None,
    };
    for attribute in given {
        match attribute.name.value.as_str() {
            "size" => size = Some((attributes::unsigned(attribute)?, attribute.value.position)),
            "align" => alignment = Some(attributes::alignment(attribute)?),
            "signed" => {
                attributes::refuse_quoted(attribute)?;
                integer.signed = attributes::boolean(attribute)?;
            }
            "byte_order" => integer.byte_order = attributes::byte_order(attribute)?,
            "base" => integer.base = base(attribute)?,
            "encoding" => integer.encoding = encoding(attribute)?,
            "map" => {
                integer.clock = Some(At {
                    position: attribute.value.position,
                    value: attributes::clock_map(attribute)?.into(),
                });
            }
            _ => return attributes::unknown(attribute, "an integer"),
        }
    }
    let Some((size, at)) = size else {
        return Err(MetadataError::new(
            position,
            "an integer needs a `size` in bits",
        ));
    };
    integer.size = u8::try_from(size)
        .ok()
        .filter(|size| (1..=64).contains(size))
        .ok_or_else(|| {
            MetadataError::new(at, "integers of 1 to 64 bits are supported, no others")
        })?;
    let whole_bytes = integer.size.is_multiple_of(8);
    integer.alignment = alignment.unwrap_or(if whole_bytes { 8 } else { 1 });
    Ok(integer)
}

fn base(attribute: &Assignment) -> Checked<Base> {
    attributes::refuse_quoted(attribute)?;
    let word = match &attribute.value.value {
        Expression::Number(number) => number.to_string(),
        _ => attributes::name(attribute)?,
    };
    Ok(match word.as_str() {
        "decimal" | "dec" | "d" | "i" | "u" | "10" => Base::Decimal,
        "hexadecimal" | "hex" | "x" | "X" | "p" | "16" => Base::Hexadecimal,
        "octal" | "oct" | "o" | "8" => Base::Octal,
        "binary" | "bin" | "b" | "2" => Base::Binary,
        _ => {
            let message = format!("`{word}` is not a base that TSDL knows");
            return Err(MetadataError::new(attribute.value.position, message));
        }
    })
}

fn encoding(attribute: &Assignment) -> Checked<Encoding> {
    attributes::refuse_quoted(attribute)?;
    match attributes::name(attribute)?.as_str() {
        "none" => Ok(Encoding::None),
        "UTF8" | "utf8" | "UTF-8" | "utf-8" => Ok(Encoding::Utf8),
        "ASCII" | "ascii" => Ok(Encoding::Ascii),
        other => Err(MetadataError::new(
            attribute.value.position,
            format!("the encoding `{other}` is not supported; UTF8, ASCII and none are"),
        )),
    }
}

fn string(given: &[Assignment]) -> Checked<()> {
    attributes::refuse_repeated(&given.iter().collect::<Vec<_>>())?;
    for attribute in given {
        match attribute.name.value.as_str() {
            "encoding" => encoding(attribute).map(drop)?,
            _ => return attributes::unknown(attribute, "a string"),
        }
    }
    Ok(())
}

fn float(given: &[Assignment], position: Position) -> Checked<FloatType> {
    attributes::refuse_repeated(&given.iter().collect::<Vec<_>>())?;
    // Basic types are byte-aligned by default, except integers whose size is not a multiple of 8
    // bits (CTF 1.8.3, section 4.1.2).
    let (mut exponent, mut mantissa, mut byte_order, mut alignment) = (None, None, None, 8);
    for attribute in given {
        match attribute.name.value.as_str() {
            "exp_dig" => {
                exponent = Some((attributes::unsigned(attribute)?, attribute.value.position))
            }
            "mant_dig" => {
                mantissa = Some((attributes::unsigned(attribute)?, attribute.value.position))
            }
            "byte_order" => byte_order = attributes::byte_order(attribute)?,
            "align" => alignment = attributes::alignment(attribute)?,
            _ => return attributes::unknown(attribute, "a floating-point number"),
        }
    }
    let (Some((exponent, at)), Some((mantissa, mantissa_at))) = (exponent, mantissa) else {
        return Err(MetadataError::new(
            position,
            "a floating-point number needs `exp_dig` and `mant_dig`",
        ));
    };
    let size = match (exponent, mantissa) {
        (5, 11) => 16,
        (8, 24) => 32,
        (11, 53) => 64,
        (15, 113) => 128,
        _ => {
            let message = "floating-point numbers of 16 bits (exp_dig 5, mant_dig 11), 32 bits (8, 24), 64 bits (11, 53) and 128 bits \
                (15, 113) are supported, no others";
            let known = [5, 8, 11, 15].contains(&exponent);
            return Err(MetadataError::new(
                if known { mantissa_at } else { at },
                message,
            ));
        }
    };
    Ok(FloatType {
        size,
        alignment,
        byte_order,
    })
}

/// Labels and their ranges, which the integer must be able to hold.
fn mappings(enumerators: &[Enumerator], of: &IntegerType) -> Checked<Arc<[Mapping]>> {
    let bits = u32::from(of.size);
    let (least, most) = match of.signed {
        true => (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1),
        false => (0, (1_i128 << bits) - 1),
    };
    let mut next = 0;
    let mut mappings = Vec::new();
    for Enumerator { label, range } in enumerators {
        let next_one = At {
            position: label.position,
            value: next,
        };
        let (low, high) = range
            .as_ref()
            .map_or((&next_one, &next_one), |(low, high)| (low, high));
        if low.value > high.value {
            let message = format!("the range {} ... {} is empty", low.value, high.value);
            return Err(MetadataError::new(low.position, message));
        }
        if let Some(wrong) = [low, high]
            .into_iter()
            .find(|end| !(least..=most).contains(&end.value))
        {
            let kind = if of.signed { "a signed" } else { "an unsigned" };
            let message = format!(
                "the label `{}` is for {}, which {kind} integer of {bits} bits cannot be",
                label.value, wrong.value
            );
            return Err(MetadataError::new(wrong.position, message));
        }
        next = high.value + 1;
        mappings.push(Mapping::new(
            Arc::from(label.value.as_str()),
            low.value,
            high.value,
        ));
    }
    Ok(Mapping::by_label(mappings).into())
}
