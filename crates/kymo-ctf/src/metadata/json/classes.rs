//! Field classes of CTF 2, from JSON.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::Checked;
use super::location::location;
use super::object::{Object, list, one_of, unsigned, wrong};
use super::ranges::{Sign, labelled, ranges, refuse_common};
use super::roles::{self, Given};
use super::syntax::{Json, Node};
use crate::class::{
    ArrayClass, Base, BitMapClass, BitOrder, BlobClass, ByteOrder, EnumClass, FieldClass,
    FloatClass, IntegerClass, Length, Mapping, Member, OptionalClass, Roles, StringClass,
    StringLength, StructClass, TextEncoding, VarIntClass, VariantClass, WideClass, WideKind,
};

/// Limit on the fields of a trace: aliases of aliases can describe exponentially many.
const MAX_FIELDS: u32 = 1 << 19;
/// Limit on the nesting of field classes.
pub(super) const MAX_DEPTH: usize = 64;

/// A field class with the facts that its user checks.
#[derive(Debug, Clone)]
pub(super) struct Made {
    pub(super) class: FieldClass,
    /// Roles of the field class and its parts, in the order of the text.
    pub(super) roles: Vec<Given>,
    /// Number of field classes, including itself.
    fields: u32,
    /// Depth of nesting, including itself.
    depth: u32,
}

impl Made {
    fn plain(class: FieldClass) -> Self {
        Made {
            class,
            roles: Vec::new(),
            fields: 1,
            depth: 1,
        }
    }
}

/// Totals over the parts of a field class.
#[derive(Debug, Default)]
struct Inside {
    roles: Vec<Given>,
    fields: u32,
    depth: u32,
}

impl Inside {
    fn take(&mut self, made: Made) -> FieldClass {
        self.roles.extend(made.roles);
        self.fields = self.fields.saturating_add(made.fields);
        self.depth = self.depth.max(made.depth);
        made.class
    }

    fn made(self, class: FieldClass) -> Made {
        Made {
            class,
            roles: self.roles,
            fields: self.fields.saturating_add(1),
            depth: self.depth + 1,
        }
    }
}

/// Builds field classes; one builder for the whole trace, so that the field limit applies to it.
#[derive(Debug, Default)]
pub(super) struct Classes {
    aliases: HashMap<String, Made>,
    fields: u32,
}

/// Properties that all fields of fixed length share.
struct Bits {
    length: u64,
    alignment: u32,
    byte_order: ByteOrder,
    bit_order: BitOrder,
}

/// The names of the properties in [`Bits`].
const BITS: [&str; 5] = ["type", "length", "byte-order", "bit-order", "alignment"];

type Maker = fn(&mut Classes, Object) -> Checked<Made>;

/// Every type of field class.
const TYPES: [(&str, Maker); 22] = [
    ("fixed-length-bit-array", |_, object| bit_array(object)),
    ("fixed-length-bit-map", |_, object| bit_map(object)),
    ("fixed-length-boolean", |_, object| boolean(object)),
    ("fixed-length-unsigned-integer", |_, object| {
        fixed_integer(object, false)
    }),
    ("fixed-length-signed-integer", |_, object| {
        fixed_integer(object, true)
    }),
    ("fixed-length-floating-point-number", |_, object| {
        float(object)
    }),
    ("variable-length-unsigned-integer", |_, object| {
        variable_integer(object, false)
    }),
    ("variable-length-signed-integer", |_, object| {
        variable_integer(object, true)
    }),
    // Of drafts, whose integers had no labels.
    ("fixed-length-unsigned-enumeration", |_, object| {
        fixed_integer(object, false)
    }),
    ("fixed-length-signed-enumeration", |_, object| {
        fixed_integer(object, true)
    }),
    ("variable-length-unsigned-enumeration", |_, object| {
        variable_integer(object, false)
    }),
    ("variable-length-signed-enumeration", |_, object| {
        variable_integer(object, true)
    }),
    ("null-terminated-string", |_, object| {
        string(object, &[], |_| Ok(StringLength::Terminated))
    }),
    ("static-length-string", |_, object| {
        string(object, &["length"], static_bytes)
    }),
    ("dynamic-length-string", |_, object| {
        string(object, &["length-field-location"], dynamic_bytes)
    }),
    ("static-length-blob", |_, object| static_blob(object)),
    ("dynamic-length-blob", |_, object| dynamic_blob(object)),
    ("structure", Classes::structure),
    ("static-length-array", Classes::static_array),
    ("dynamic-length-array", Classes::dynamic_array),
    ("optional", Classes::optional),
    ("variant", Classes::variant),
];

impl Classes {
    /// Defines the alias at `name`.
    pub(super) fn alias(&mut self, name: &Node, text: &str, made: Made) -> Checked<()> {
        if self.aliases.insert(text.to_owned(), made).is_some() {
            return wrong(
                name,
                format!("there is already a field class alias `{text}`"),
            );
        }
        Ok(())
    }

    /// Builds the field class that `node` describes or names.
    pub(super) fn make(&mut self, node: &Node) -> Checked<Made> {
        let made = match &node.value {
            Json::Text(name) => match self.aliases.get(name) {
                Some(made) if self.fields.saturating_add(made.fields) > MAX_FIELDS => {
                    return too_many(node);
                }
                Some(made) => {
                    self.fields += made.fields;
                    made.clone()
                }
                None => {
                    return wrong(
                        node,
                        format!("no field class alias `{name}` comes before this one's use"),
                    );
                }
            },
            Json::Map(_) => {
                if self.fields >= MAX_FIELDS {
                    return too_many(node);
                }
                self.fields += 1;
                let object = Object::new(node, "a field class")?;
                let of = object.need_text("type")?;
                let maker: Maker =
                    one_of(object.need("type")?, "the field class's `type`", &TYPES)?;
                maker(self, object.named(&format!("a field class of type `{of}`")))?
            }
            _ => {
                return wrong(
                    node,
                    format!(
                        "a field class must be an object or the name of an alias, not {}",
                        node.kind()
                    ),
                );
            }
        };
        if made.depth as usize > MAX_DEPTH {
            return wrong(
                node,
                format!(
                    "field classes are nested more than {MAX_DEPTH} deep, which is not supported"
                ),
            );
        }
        Ok(made)
    }

    fn structure(&mut self, object: Object) -> Checked<Made> {
        let object = object.known(&["type", "member-classes", "minimum-alignment"])?;
        let minimum = object.alignment("minimum-alignment")?;
        let mut inside = Inside::default();
        let mut members = Vec::new();
        let mut names = HashSet::new();
        for node in object
            .get("member-classes")
            .map(|node| list(node, "`member-classes`"))
            .transpose()?
            .unwrap_or(&[])
        {
            let member =
                Object::new(node, "a structure's member class")?.known(&["name", "field-class"])?;
            let name = member.need_text("name")?;
            if !names.insert(name) {
                return wrong(
                    member.need("name")?,
                    format!("the structure has two members `{name}`"),
                );
            }
            let class = inside.take(self.make(member.need("field-class")?)?);
            members.push(named(name, class, &member)?);
        }
        let class = StructClass {
            attributes: object.attributes()?,
            ..StructClass::new(members, minimum)
        };
        Ok(inside.made(FieldClass::Struct(class)))
    }

    fn static_array(&mut self, object: Object) -> Checked<Made> {
        let object =
            object.known(&["type", "element-field-class", "minimum-alignment", "length"])?;
        let length = Length::Static(object.need_unsigned("length", 0)?);
        self.array(object, length)
    }

    fn dynamic_array(&mut self, object: Object) -> Checked<Made> {
        let object = object.known(&[
            "type",
            "element-field-class",
            "minimum-alignment",
            "length-field-location",
        ])?;
        let length = Length::Dynamic(location(&object, "length-field-location")?);
        self.array(object, length)
    }

    fn array(&mut self, object: Object, length: Length) -> Checked<Made> {
        let minimum_alignment = object.alignment("minimum-alignment")?;
        let mut inside = Inside::default();
        let element = inside.take(self.make(object.need("element-field-class")?)?);
        let class = ArrayClass {
            minimum_alignment,
            attributes: object.attributes()?,
            ..ArrayClass::new(element, length)
        };
        Ok(inside.made(FieldClass::Array(class)))
    }

    fn optional(&mut self, object: Object) -> Checked<Made> {
        let object = object.known(&[
            "type",
            "field-class",
            "selector-field-location",
            "selector-field-ranges",
        ])?;
        let selector = location(&object, "selector-field-location")?;
        let ranges = object
            .get(RANGES)
            .map(|node| ranges(node, "`selector-field-ranges`"))
            .transpose()?;
        let mut inside = Inside::default();
        let class = inside.take(self.make(object.need("field-class")?)?);
        let (attributes, ranges_position) = (object.attributes()?, object.place(RANGES));
        let class = OptionalClass {
            attributes,
            ranges_position,
            ..OptionalClass::new(selector, ranges, class)
        };
        Ok(inside.made(FieldClass::Optional(class)))
    }

    fn variant(&mut self, object: Object) -> Checked<Made> {
        let object = object.known(&["type", "selector-field-location", "options"])?;
        let selector = location(&object, "selector-field-location")?;
        let node = object.need("options")?;
        let nodes = list(node, "`options`")?;
        if nodes.is_empty() {
            return wrong(node, "a variant's `options` must be one at least");
        }
        let mut inside = Inside::default();
        let (mut options, mut all, mut places) = (Vec::new(), Vec::new(), Vec::new());
        let mut names = HashSet::new();
        for node in nodes {
            let option =
                Object::new(node, "a variant's option")?.known(&["name", "field-class", RANGES])?;
            let name = option
                .get("name")
                .map(|_| option.need_text("name"))
                .transpose()?;
            if let Some(name) = name
                && !names.insert(name)
            {
                return wrong(
                    option.need("name")?,
                    format!("the variant has two options `{name}`"),
                );
            }
            let selected = option.need(RANGES)?;
            all.push(ranges(selected, "`selector-field-ranges`")?);
            places.push(selected.at);
            let class = inside.take(self.make(option.need("field-class")?)?);
            options.push(named(name.unwrap_or(""), class, &option)?);
        }
        refuse_common(&all, &places)?;
        let class = VariantClass {
            attributes: object.attributes()?,
            ..VariantClass::new(selector, options, Some(all))
        };
        Ok(inside.made(FieldClass::Variant(class)))
    }
}

const RANGES: &str = "selector-field-ranges";

fn too_many<T>(node: &Node) -> Checked<T> {
    wrong(
        node,
        format!("the trace describes more than {MAX_FIELDS} fields, which is not supported"),
    )
}

/// A member or option whose shown name is its declared name: CTF 2 has no keywords to escape.
fn named(name: &str, class: FieldClass, object: &Object) -> Checked<Member> {
    let name: Arc<str> = Arc::from(name);
    Ok(Member {
        declared_name: Arc::clone(&name),
        name,
        class,
        attributes: object.attributes()?,
    })
}

/// Reads the properties of a field of fixed length; `more` lists its other known properties.
fn bits(object: Object, more: &[&str]) -> Checked<Bits> {
    object.known(&[&BITS, more].concat())?;
    let length = object.need_unsigned("length", 1)?;
    let orders = [
        ("little-endian", ByteOrder::Little),
        ("big-endian", ByteOrder::Big),
    ];
    let byte_order = one_of(object.need("byte-order")?, "`byte-order`", &orders)?;
    let (first, last) = match byte_order {
        ByteOrder::Little => (BitOrder::Natural, BitOrder::Reversed),
        ByteOrder::Big => (BitOrder::Reversed, BitOrder::Natural),
    };
    let bit_order = object.get("bit-order");
    let bit_order = bit_order.map(|node| {
        one_of(
            node,
            "`bit-order`",
            &[("first-to-last", first), ("last-to-first", last)],
        )
    });
    let bit_order = bit_order.transpose()?.unwrap_or_default();
    Ok(Bits {
        length,
        alignment: object.alignment("alignment")?,
        byte_order,
        bit_order,
    })
}

/// Storage of a field of fixed length.
enum Stored {
    Integer(IntegerClass),
    Wide(WideClass),
}

impl Bits {
    /// The integer as which a field is stored.
    fn stored(&self, object: &Object, signed: bool) -> Checked<Stored> {
        let Bits {
            length,
            alignment,
            byte_order,
            bit_order,
        } = *self;
        let attributes = object.attributes()?;
        Ok(match u8::try_from(length) {
            Ok(size @ ..=64) => {
                let class = IntegerClass::new(size, alignment, signed, byte_order);
                Stored::Integer(IntegerClass {
                    bit_order,
                    attributes,
                    ..class
                })
            }
            _ => Stored::Wide(WideClass {
                bit_order,
                attributes,
                ..WideClass::new(length, alignment, signed, byte_order)
            }),
        })
    }
}

fn bit_array(object: Object) -> Checked<Made> {
    bits_alone(&bits(object, &[])?, &object)
}

fn bits_alone(bits: &Bits, object: &Object) -> Checked<Made> {
    Ok(Made::plain(match bits.stored(object, false)? {
        Stored::Integer(class) => FieldClass::BitArray(class),
        Stored::Wide(class) => FieldClass::Wide(WideClass {
            kind: WideKind::BitArray,
            base: Base::Hexadecimal,
            ..class
        }),
    }))
}

fn bit_map(object: Object) -> Checked<Made> {
    let bits = bits(object, &["flags"])?;
    let node = object.need("flags")?;
    let flags = labelled(node, "`flags`", Sign::NotNegative)?;
    if flags.is_empty() {
        return wrong(node, "a bit map's `flags` must be one at least");
    }
    Ok(Made::plain(match bits.stored(&object, false)? {
        Stored::Integer(integer) => FieldClass::BitMap(BitMapClass { integer, flags }),
        Stored::Wide(class) => FieldClass::Wide(WideClass {
            kind: WideKind::BitMap(flags),
            base: Base::Hexadecimal,
            ..class
        }),
    }))
}

fn boolean(object: Object) -> Checked<Made> {
    Ok(Made::plain(
        match bits(object, &[])?.stored(&object, false)? {
            Stored::Integer(class) => FieldClass::Bool(class),
            Stored::Wide(class) => FieldClass::Wide(WideClass {
                kind: WideKind::Bool,
                ..class
            }),
        },
    ))
}

/// Reads an integer's preferred base and the labels of its values.
fn shown(object: &Object) -> Checked<(Base, Option<Arc<[Mapping]>>)> {
    let base = match object.get("preferred-display-base") {
        None => Base::Decimal,
        Some(node) => match unsigned(node, "`preferred-display-base`", 0)? {
            2 => Base::Binary,
            8 => Base::Octal,
            10 => Base::Decimal,
            16 => Base::Hexadecimal,
            other => {
                return wrong(
                    node,
                    format!("`preferred-display-base` is {other}; it can be 2, 8, 10 or 16"),
                );
            }
        },
    };
    let mappings = object
        .get("mappings")
        .map(|node| labelled(node, "`mappings`", Sign::Any))
        .transpose()?;
    Ok((base, mappings.filter(|mappings| !mappings.is_empty())))
}

/// Known properties of integers other than those of fixed length; only unsigned integers have
/// roles.
fn of_integers(signed: bool) -> &'static [&'static str] {
    if signed {
        &["type", "preferred-display-base", "mappings"]
    } else {
        &["type", "preferred-display-base", "mappings", "roles"]
    }
}

fn set(given: &[Given]) -> Roles {
    given
        .iter()
        .fold(Roles::NONE, |roles, given| roles.with(given.role))
}

fn fixed_integer(object: Object, signed: bool) -> Checked<Made> {
    let bits = bits(object, of_integers(signed))?;
    let (base, mappings) = shown(&object)?;
    let given = roles::read(object.get("roles"), &roles::OF_INTEGERS)?;
    let roles = set(&given);
    let class = match (bits.stored(&object, signed)?, mappings) {
        (Stored::Integer(class), Some(mappings)) => FieldClass::Enum(EnumClass {
            integer: IntegerClass {
                base,
                roles,
                ..class
            },
            mappings,
        }),
        (Stored::Integer(class), None) => FieldClass::Integer(IntegerClass {
            base,
            roles,
            ..class
        }),
        (Stored::Wide(class), mappings) => {
            let kind = mappings.map_or(WideKind::Integer, WideKind::Enum);
            FieldClass::Wide(WideClass {
                base,
                roles,
                kind,
                ..class
            })
        }
    };
    Ok(Made {
        roles: given,
        ..Made::plain(class)
    })
}

fn variable_integer(object: Object, signed: bool) -> Checked<Made> {
    let object = object.known(of_integers(signed))?;
    let (base, mappings) = shown(&object)?;
    let given = roles::read(object.get("roles"), &roles::OF_INTEGERS)?;
    let attributes = object.attributes()?;
    let class = VarIntClass {
        base,
        mappings,
        roles: set(&given),
        attributes,
        ..VarIntClass::new(signed)
    };
    Ok(Made {
        roles: given,
        ..Made::plain(FieldClass::VarInt(class))
    })
}

fn float(object: Object) -> Checked<Made> {
    let bits = bits(object, &[])?;
    let size = match bits.length {
        16 => 16,
        32 => 32,
        64 => 64,
        128 => 128,
        // There is no value type for longer numbers, so they are given as bits.
        longer if longer > 128 && longer.is_multiple_of(32) => return bits_alone(&bits, &object),
        other => {
            let message = format!(
                "`length` is {other}; IEEE 754 has numbers of 16, 32, 64, 128 and longer multiples \
                 of 32 bits"
            );
            return wrong(object.need("length")?, message);
        }
    };
    let Bits {
        alignment,
        byte_order,
        bit_order,
        ..
    } = bits;
    let class = FloatClass {
        size,
        alignment,
        byte_order,
        bit_order,
        attributes: object.attributes()?,
    };
    Ok(Made::plain(FieldClass::Float(class)))
}

fn static_bytes(object: &Object) -> Checked<StringLength> {
    Ok(StringLength::Static(object.need_unsigned("length", 0)?))
}

fn dynamic_bytes(object: &Object) -> Checked<StringLength> {
    Ok(StringLength::Dynamic(location(
        object,
        "length-field-location",
    )?))
}

/// Text encodings by their names.
pub(crate) const ENCODINGS: [(&str, TextEncoding); 5] = [
    ("utf-8", TextEncoding::Utf8),
    ("utf-16be", TextEncoding::Utf16Be),
    ("utf-16le", TextEncoding::Utf16Le),
    ("utf-32be", TextEncoding::Utf32Be),
    ("utf-32le", TextEncoding::Utf32Le),
];

fn string(
    object: Object,
    more: &[&str],
    length: fn(&Object) -> Checked<StringLength>,
) -> Checked<Made> {
    let object = object.known(&[&["type", "encoding"], more].concat())?;
    let encoding = object
        .get("encoding")
        .map(|node| one_of(node, "`encoding`", &ENCODINGS))
        .transpose()?
        .unwrap_or_default();
    let class = StringClass {
        length: length(&object)?,
        encoding,
        attributes: object.attributes()?,
    };
    Ok(Made::plain(FieldClass::String(class)))
}

fn static_blob(object: Object) -> Checked<Made> {
    let object = object.known(&["type", "length", "media-type", "roles"])?;
    let given = roles::read(object.get("roles"), &roles::OF_BLOBS)?;
    let length = object.need_unsigned("length", 0)?;
    if !given.is_empty() && length != 16 {
        return wrong(
            object.need("length")?,
            format!("`length` is {length}, but a UUID, as `roles` has it, is 16 bytes"),
        );
    }
    let made = blob(&object, StringLength::Static(length), set(&given))?;
    Ok(Made {
        roles: given,
        ..made
    })
}

fn dynamic_blob(object: Object) -> Checked<Made> {
    let object = object.known(&["type", "length-field-location", "media-type"])?;
    blob(&object, dynamic_bytes(&object)?, Roles::NONE)
}

fn blob(object: &Object, length: StringLength, roles: Roles) -> Checked<Made> {
    let media_type = object.text("media-type")?;
    let media_type = Arc::from(media_type.as_deref().unwrap_or("application/octet-stream"));
    let class = BlobClass {
        length,
        media_type,
        roles,
        attributes: object.attributes()?,
    };
    Ok(Made::plain(FieldClass::Blob(class)))
}
