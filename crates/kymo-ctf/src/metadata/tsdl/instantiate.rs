//! Instantiates types: turns [`super::types`] into the field classes by which streams are decoded.
//!
//! A length or a tag becomes a [location](FieldLocation): absolute if the path begins with the name
//! of a part of the packet (`stream.event.header.`), else of the nearest preceding field with that
//! name.

use std::rc::Rc;
use std::sync::Arc;

use super::ast::{At, Length as PathLength, Path};
use super::names::shown_names;
use super::types::{IntegerType, MemberType, Reference, Type, TypeKind};
use crate::class::attribute::Attributes;
use crate::class::{
    ArrayClass, BitOrder, ByteOrder, Encoding, EnumClass, FieldClass, FieldLocation, FloatClass,
    IntegerClass, Length, Member, Origin, Scope, StringClass, StructClass, VariantClass,
};
use crate::error::{MetadataError, Position};
use crate::metadata::EnvValue;

/// Limit on the fields of a trace: a text can describe exponentially many by nesting structures.
const MAX_FIELDS: u32 = 1 << 19;

/// Builds field classes; one builder for the whole trace, so that the field limit applies to it.
#[derive(Debug)]
pub(crate) struct Instantiator {
    byte_order: ByteOrder,
    env: Vec<(String, EnvValue)>,
    fields: u32,
}

type Checked<T> = Result<T, MetadataError>;

impl Instantiator {
    pub(crate) fn new(byte_order: ByteOrder, env: &[(String, EnvValue)]) -> Self {
        Instantiator {
            byte_order,
            env: env.to_vec(),
            fields: 0,
        }
    }

    /// The class of a scope, which must be a structure.
    pub(crate) fn scope(&mut self, scope: Scope, of: &At<Rc<Type>>) -> Checked<StructClass> {
        match self.field(&of.value, of.position)? {
            FieldClass::Struct(class) => Ok(class),
            _ => Err(MetadataError::new(
                of.position,
                format!("`{}` must be a structure", scope.tsdl().join(".")),
            )),
        }
    }

    fn field(&mut self, of: &Type, at: Position) -> Checked<FieldClass> {
        self.fields += 1;
        if self.fields > MAX_FIELDS {
            let message = format!(
                "the trace describes more than {MAX_FIELDS} fields, which is not supported"
            );
            return Err(MetadataError::new(at, message));
        }
        Ok(match &of.kind {
            TypeKind::Integer(integer) => FieldClass::Integer(self.integer(integer)),
            TypeKind::Float(float) => FieldClass::Float(FloatClass {
                size: float.size,
                alignment: float.alignment,
                byte_order: float.byte_order.unwrap_or(self.byte_order),
                bit_order: BitOrder::Natural,
                attributes: Attributes::default(),
            }),
            TypeKind::String => FieldClass::String(StringClass::terminated()),
            TypeKind::Enum { integer, mappings } => FieldClass::Enum(EnumClass {
                integer: self.integer(integer),
                mappings: Arc::clone(mappings),
            }),
            TypeKind::Struct {
                members,
                align,
                body,
            } => {
                let members = self.members(members)?;
                FieldClass::Struct(StructClass {
                    body: *body,
                    ..StructClass::new(members, *align)
                })
            }
            TypeKind::Array { element, length } => self.array(element, length, at)?,
            TypeKind::Variant { tag, options } => {
                let Some(tag) = tag else {
                    return Err(MetadataError::new(at, "this variant is used without a tag"));
                };
                let options = self.members(options)?;
                FieldClass::Variant(VariantClass::new(
                    location(&tag.at.value, tag),
                    options,
                    None,
                ))
            }
        })
    }

    fn integer(&self, integer: &IntegerType) -> IntegerClass {
        let byte_order = integer.byte_order.unwrap_or(self.byte_order);
        IntegerClass {
            base: integer.base,
            encoding: integer.encoding,
            clock: integer.clock.as_ref().map(|clock| Arc::clone(&clock.value)),
            unit: integer.unit,
            ..IntegerClass::new(integer.size, integer.alignment, integer.signed, byte_order)
        }
    }

    /// An integer of the environment, which can give the length of arrays.
    fn env(&self, name: &str, at: Position) -> Checked<u64> {
        let value = self
            .env
            .iter()
            .find(|(have, _)| have == name)
            .map(|(_, value)| value);
        let length = match value {
            Some(EnvValue::Integer(length)) => u64::try_from(*length).ok(),
            _ => None,
        };
        length.ok_or_else(|| {
            MetadataError::new(
                at,
                format!(
                    "`env.{name}` gives a length, so it must be an integer that is not negative"
                ),
            )
        })
    }

    fn members(&mut self, members: &[MemberType]) -> Checked<Vec<Member>> {
        let shown = shown_names(members.iter().map(|member| &*member.name));
        let named = members.iter().zip(shown);
        let made = named.map(|(member, shown)| {
            Ok(Member {
                name: Arc::from(shown),
                declared_name: Arc::clone(&member.name),
                class: self.field(&member.of, member.position)?,
                attributes: Attributes::default(),
            })
        });
        made.collect()
    }

    fn array(
        &mut self,
        element: &Type,
        length: &Reference<PathLength>,
        at: Position,
    ) -> Checked<FieldClass> {
        let length = match &length.at.value {
            PathLength::Fixed(length) => Length::Static(*length),
            PathLength::Field(path) => match path.as_slice() {
                [env, name] if env == "env" => Length::Static(self.env(name, length.at.position)?),
                _ => Length::Dynamic(location(path, length)),
            },
        };
        let element = self.field(element, at)?;
        let text = matches!(&element, FieldClass::Integer(integer)
            if integer.size == 8 && integer.alignment == 8 && integer.encoding != Encoding::None);
        Ok(FieldClass::Array(ArrayClass {
            text,
            ..ArrayClass::new(element, length)
        }))
    }
}

fn location<T>(path: &Path, reference: &Reference<T>) -> FieldLocation {
    let absolute = Scope::ALL.into_iter().find_map(|scope| {
        let rest = path.strip_prefix_of(scope.tsdl())?;
        Some((Origin::Scope(scope), rest))
    });
    let (origin, names) = absolute.unwrap_or((Origin::Nearest, path));
    let names = names
        .iter()
        .map(|name| Some(Arc::from(name.as_str())))
        .collect();
    FieldLocation {
        body: reference.body,
        ..FieldLocation::new(origin, names, reference.at.position)
    }
}

trait StripPrefix {
    fn strip_prefix_of(&self, prefix: &[&str]) -> Option<&[String]>;
}

impl StripPrefix for [String] {
    /// The rest of a path after `prefix`, if it is not empty.
    fn strip_prefix_of(&self, prefix: &[&str]) -> Option<&[String]> {
        let matches =
            self.len() > prefix.len() && self.iter().zip(prefix).all(|(have, want)| have == want);
        if matches {
            self.get(prefix.len()..)
        } else {
            None
        }
    }
}
