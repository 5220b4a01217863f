//! Reads `name = value;` lists; checks that each attribute is known, of the right kind and unique.

use super::ast::{Assignment, At, Expression, Path};
use crate::class::ByteOrder;
use crate::error::MetadataError;

type Checked<T> = Result<T, MetadataError>;

/// Refuses an attribute given twice.
pub(crate) fn refuse_repeated(attributes: &[&Assignment]) -> Checked<()> {
    let mut names: Vec<_> = attributes.iter().map(|attribute| &attribute.name).collect();
    names.sort_by(|a, b| (&a.value, a.position).cmp(&(&b.value, b.position)));
    for pair in names.windows(2) {
        if let [first, second] = pair
            && first.value == second.value
        {
            return Err(MetadataError::new(
                second.position,
                format!("`{}` is given twice", second.value),
            ));
        }
    }
    Ok(())
}

pub(crate) fn unknown<T>(attribute: &Assignment, of: &str) -> Checked<T> {
    Err(MetadataError::new(
        attribute.name.position,
        format!(
            "`{}` is not a known attribute of {of}",
            attribute.name.value
        ),
    ))
}

/// A warning about an unknown attribute, which is ignored because it does not affect the layout.
pub(crate) fn ignored(attribute: &Assignment, of: &str) -> MetadataError {
    let message = format!(
        "`{}` is not a known attribute of {of}; it is ignored",
        attribute.name.value
    );
    MetadataError::new(attribute.name.position, message)
}

/// An error for a part of a packet that was assigned a value instead of a type.
pub(crate) fn no_type<T>(attribute: &Assignment) -> Checked<T> {
    let message = format!(
        "the type of `{}` must be given by `:=`, not by `=`",
        attribute.name.value
    );
    Err(MetadataError::new(attribute.value.position, message))
}

fn wrong<T>(attribute: &Assignment, wanted: &str) -> Checked<T> {
    Err(MetadataError::new(
        attribute.value.position,
        format!("`{}` must be {wanted}", attribute.name.value),
    ))
}

pub(crate) fn unsigned(attribute: &Assignment) -> Checked<u64> {
    match attribute.value.value {
        Expression::Number(number) => {
            u64::try_from(number).or_else(|_| wrong(attribute, "an integer of 0 or more"))
        }
        _ => wrong(attribute, "an integer"),
    }
}

/// Any integer constant.
pub(crate) fn number(attribute: &Assignment) -> Checked<i128> {
    match attribute.value.value {
        Expression::Number(number) => Ok(number),
        _ => wrong(attribute, "an integer"),
    }
}

pub(crate) fn signed(attribute: &Assignment) -> Checked<i64> {
    match attribute.value.value {
        Expression::Number(number) => {
            i64::try_from(number).or_else(|_| wrong(attribute, "an integer of 64 bits with sign"))
        }
        _ => wrong(attribute, "an integer"),
    }
}

pub(crate) fn text(attribute: &Assignment) -> Checked<String> {
    match &attribute.value.value {
        Expression::Text(text) => Ok(text.clone()),
        _ => wrong(attribute, "a quoted string"),
    }
}

/// Refuses a quoted string where the grammar has a word or a number.
pub(crate) fn refuse_quoted(attribute: &Assignment) -> Checked<()> {
    match attribute.value.value {
        Expression::Text(_) => wrong(attribute, "a word or a number without quotes"),
        _ => Ok(()),
    }
}

fn word(attribute: &Assignment) -> Option<&str> {
    match &attribute.value.value {
        Expression::Path(path) => match path.as_slice() {
            [word] => Some(word),
            _ => None,
        },
        Expression::Text(text) => Some(text),
        Expression::Number(_) => None,
    }
}

/// A name, quoted or bare.
pub(crate) fn name(attribute: &Assignment) -> Checked<String> {
    match word(attribute) {
        Some(word) => Ok(word.to_owned()),
        None => wrong(attribute, "a name"),
    }
}

pub(crate) fn boolean(attribute: &Assignment) -> Checked<bool> {
    match (&attribute.value.value, word(attribute)) {
        (Expression::Number(1), _) | (_, Some("true" | "TRUE")) => Ok(true),
        (Expression::Number(0), _) | (_, Some("false" | "FALSE")) => Ok(false),
        _ => wrong(attribute, "true or false"),
    }
}

/// Reads a byte order; `None` is the trace's own.
pub(crate) fn byte_order(attribute: &Assignment) -> Checked<Option<ByteOrder>> {
    match word(attribute) {
        Some("le") => Ok(Some(ByteOrder::Little)),
        Some("be" | "network") => Ok(Some(ByteOrder::Big)),
        Some("native") => Ok(None),
        _ => wrong(attribute, "one of `le`, `be`, `network` and `native`"),
    }
}

/// Reads the trace's own byte order, which must not be `native` or `network` (CTF 1.8.3, section
/// 4.1.3).
pub(crate) fn byte_order_of_trace(attribute: &Assignment) -> Checked<ByteOrder> {
    match word(attribute) {
        Some("le") => Ok(ByteOrder::Little),
        Some("be") => Ok(ByteOrder::Big),
        Some(word @ ("native" | "network")) => {
            let message = format!(
                "the trace's own byte order cannot be `{word}`, which is for types; it must be \
                 `le` or `be`"
            );
            Err(MetadataError::new(attribute.value.position, message))
        }
        _ => wrong(attribute, "`le` or `be`"),
    }
}

pub(crate) fn alignment(attribute: &Assignment) -> Checked<u32> {
    let value = unsigned(attribute)?;
    alignment_of(&At {
        position: attribute.value.position,
        value,
    })
}

pub(crate) fn alignment_of(bits: &At<u64>) -> Checked<u32> {
    u32::try_from(bits.value)
        .ok()
        .filter(|bits| bits.is_power_of_two())
        .ok_or_else(|| {
            let message = "an alignment must be a power of two, 2147483648 bits at most";
            MetadataError::new(bits.position, message)
        })
}

/// `map = clock.NAME.value`: the clock's name.
pub(crate) fn clock_map(attribute: &Assignment) -> Checked<String> {
    if let Expression::Path(path) = &attribute.value.value
        && let [clock, name, value] = path.as_slice()
        && clock == "clock"
        && value == "value"
    {
        return Ok(name.clone());
    }
    wrong(attribute, "of the form `clock.NAME.value`")
}

pub(crate) fn uuid(attribute: &Assignment) -> Checked<[u8; 16]> {
    let digits: String = text(attribute)?.split('-').collect();
    let parsed = (digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
        .then(|| u128::from_str_radix(&digits, 16).ok())
        .flatten();
    match parsed {
        Some(number) => Ok(number.to_be_bytes()),
        None => wrong(attribute, "a UUID of 32 hexadecimal digits"),
    }
}

/// The path as it is written in the text.
pub(crate) fn dotted(path: &Path) -> String {
    path.join(".")
}
