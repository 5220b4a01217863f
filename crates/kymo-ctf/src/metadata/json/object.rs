//! Typed access to the properties of JSON objects, with an error for each mistake.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::Checked;
use super::syntax::{Json, Name, Node};
use crate::class::attribute::{AttributeValue, Attributes};
use crate::class::wide_int::WideInt;
use crate::error::{MetadataError, Position};

/// What drafts of CTF 2 called `attributes`.
const USER_ATTRIBUTES: &str = "user-attributes";

/// A JSON object and its description for messages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Object<'a> {
    pub(super) at: Position,
    properties: &'a [(Name, Node)],
    /// The object's description: "a clock class".
    of: &'a str,
}

/// An error at `node`.
pub(super) fn wrong<T>(node: &Node, message: impl Into<String>) -> Checked<T> {
    Err(MetadataError::new(node.at, message))
}

/// The properties of `node`, which must be an object.
pub(super) fn map<'a>(node: &'a Node, what: &str) -> Checked<&'a [(Name, Node)]> {
    match &node.value {
        Json::Map(properties) => Ok(properties),
        _ => wrong(
            node,
            format!("{what} must be an object, not {}", node.kind()),
        ),
    }
}

/// The elements of `node`, which must be an array.
pub(super) fn list<'a>(node: &'a Node, what: &str) -> Checked<&'a [Node]> {
    match &node.value {
        Json::List(elements) => Ok(elements),
        _ => wrong(
            node,
            format!("{what} must be an array, not {}", node.kind()),
        ),
    }
}

/// The text of `node`, which must be a string.
pub(super) fn text<'a>(node: &'a Node, what: &str) -> Checked<&'a str> {
    match &node.value {
        Json::Text(text) => Ok(text),
        _ => wrong(
            node,
            format!("{what} must be a string, not {}", node.kind()),
        ),
    }
}

/// The value of `node`, which must be an integer in a range.
pub(super) fn integer(
    node: &Node,
    what: impl Display,
    range: RangeInclusive<i128>,
) -> Checked<i128> {
    let outside = |value: &dyn Display| {
        wrong(
            node,
            format!(
                "{what} is {value}; it must be an integer from {} to {}",
                range.start(),
                range.end()
            ),
        )
    };
    match &node.value {
        Json::Integer(value) if range.contains(value) => Ok(*value),
        Json::Integer(value) => outside(value),
        Json::Wide(value) => outside(&value.brief()),
        _ => wrong(
            node,
            format!("{what} must be an integer, not {}", node.kind()),
        ),
    }
}

/// The value of `node`, which must be an integer of any size.
pub(super) fn any_integer(node: &Node, what: &str) -> Checked<WideInt> {
    match &node.value {
        Json::Integer(value) => Ok((*value).into()),
        Json::Wide(value) => Ok(value.clone()),
        _ => wrong(
            node,
            format!("{what} must be an integer, not {}", node.kind()),
        ),
    }
}

/// The value of `node`, which must be an unsigned 64-bit integer of at least `least`.
pub(super) fn unsigned(node: &Node, what: impl Display, least: u64) -> Checked<u64> {
    let value = integer(node, what, least.into()..=u64::MAX.into())?;
    Ok(u64::try_from(value).unwrap_or(u64::MAX))
}

/// The value of the word in `node`, which must be one of `words`.
pub(super) fn one_of<T: Copy>(node: &Node, what: &str, words: &[(&str, T)]) -> Checked<T> {
    let word = text(node, what)?;
    let found = words.iter().find(|(known, _)| *known == word);
    found.map(|(_, value)| *value).map_or_else(
        || {
            let known: Vec<String> = words
                .iter()
                .map(|(known, _)| format!("`{known}`"))
                .collect();
            wrong(
                node,
                format!("{what} is `{word}`, which is none of {}", known.join(", ")),
            )
        },
        Ok,
    )
}

impl<'a> Object<'a> {
    /// The object in `node`, described as `of`.
    pub(super) fn new(node: &'a Node, of: &'a str) -> Checked<Self> {
        Ok(Object {
            at: node.at,
            properties: map(node, of)?,
            of,
        })
    }

    /// Gives the object the description `of`.
    pub(super) fn named(self, of: &'a str) -> Self {
        Object { of, ..self }
    }

    /// Refuses properties that are not in `known`.
    pub(super) fn only(self, known: &[&str]) -> Checked<Self> {
        match self
            .properties
            .iter()
            .find(|(name, _)| !known.contains(&name.text.as_str()))
        {
            Some((name, _)) => {
                let message = format!("`{}` is not a known property of {}", name.text, self.of);
                Err(MetadataError::new(name.at, message))
            }
            None => Ok(self),
        }
    }

    /// Refuses unknown properties other than attributes, and all extensions: an extension may
    /// change the meaning of the rest, and none is supported.
    pub(super) fn known(self, known: &[&str]) -> Checked<Self> {
        let beyond = |name: &Name| {
            matches!(
                name.text.as_str(),
                "attributes" | "extensions" | USER_ATTRIBUTES
            ) || known.contains(&name.text.as_str())
        };
        match self.properties.iter().find(|(name, _)| !beyond(name)) {
            Some((name, _)) => Err(MetadataError::new(
                name.at,
                format!("`{}` is not a known property of {}", name.text, self.of),
            )),
            None => self.extensions("used, but not declared in the preamble"),
        }
    }

    /// Refuses extensions; `are` completes the message.
    pub(super) fn extensions(self, are: &str) -> Checked<Self> {
        let Some(node) = self.get("extensions") else {
            return Ok(self);
        };
        for (namespace, extensions) in map(node, "`extensions`")? {
            if let Some((name, _)) = map(extensions, "a namespace's extensions")?.first() {
                let message = format!(
                    "the extension `{}` of `{}` is {are}",
                    name.text, namespace.text
                );
                return Err(MetadataError::new(name.at, message));
            }
        }
        Ok(self)
    }

    /// The property of this name, if it exists.
    pub(super) fn get(&self, name: &str) -> Option<&'a Node> {
        self.properties
            .iter()
            .find(|(have, _)| have.text == name)
            .map(|(_, value)| value)
    }

    /// The property of this name, or of the one that drafts of CTF 2 have for it.
    pub(super) fn either(&self, name: &str, in_drafts: &str) -> Option<&'a Node> {
        self.get(name).or_else(|| self.get(in_drafts))
    }

    /// Position of the property of this name or, if it is missing, of the object.
    pub(super) fn place(&self, name: &str) -> Position {
        self.get(name).map_or(self.at, |node| node.at)
    }

    /// The property of this name, which must exist.
    pub(super) fn need(&self, name: &str) -> Checked<&'a Node> {
        self.get(name)
            .ok_or_else(|| MetadataError::new(self.at, format!("{} needs `{name}`", self.of)))
    }

    /// The string property of this name, if it exists.
    pub(super) fn text(&self, name: &str) -> Checked<Option<String>> {
        self.get(name)
            .map(|node| text(node, &format!("`{name}`")).map(str::to_owned))
            .transpose()
    }

    /// The string property of this name, which must exist.
    pub(super) fn need_text(&self, name: &str) -> Checked<&'a str> {
        text(self.need(name)?, &format!("`{name}`"))
    }

    /// The unsigned property of this name, if it exists.
    pub(super) fn unsigned(&self, name: &str, least: u64) -> Checked<Option<u64>> {
        self.get(name)
            .map(|node| unsigned(node, format_args!("`{name}`"), least))
            .transpose()
    }

    /// The unsigned property of this name, which must exist.
    pub(super) fn need_unsigned(&self, name: &str, least: u64) -> Checked<u64> {
        unsigned(self.need(name)?, format_args!("`{name}`"), least)
    }

    /// The property of this name, a power of two; default: 1.
    pub(super) fn alignment(&self, name: &str) -> Checked<u32> {
        let Some(node) = self.get(name) else {
            return Ok(1);
        };
        let value = unsigned(node, format_args!("`{name}`"), 1)?;
        match u32::try_from(value) {
            _ if !value.is_power_of_two() => wrong(
                node,
                format!("`{name}` is {value}, which is not a power of two"),
            ),
            Ok(value) => Ok(value),
            Err(_) => wrong(
                node,
                format!(
                    "`{name}` is {value}; more than {} is not supported",
                    1_u32 << 31
                ),
            ),
        }
    }

    /// The object's attributes.
    pub(super) fn attributes(&self) -> Checked<Attributes> {
        let Some(node) = self.either("attributes", USER_ATTRIBUTES) else {
            return Ok(Attributes::default());
        };
        let attributes = map(node, "`attributes`")?;
        if attributes.is_empty() {
            return Ok(Attributes::default());
        }
        Ok(Attributes(Some(Arc::new(attribute_map(attributes)))))
    }
}

fn attribute_map(properties: &[(Name, Node)]) -> Vec<(String, AttributeValue)> {
    properties
        .iter()
        .map(|(name, value)| (name.text.clone(), attribute(value)))
        .collect()
}

fn attribute(node: &Node) -> AttributeValue {
    match &node.value {
        Json::Null => AttributeValue::Null,
        Json::Bool(value) => AttributeValue::Bool(*value),
        Json::Integer(value) => AttributeValue::Integer(*value),
        Json::Wide(value) => AttributeValue::Wide(value.clone()),
        Json::Real(value) => AttributeValue::Real(*value),
        Json::Text(text) => AttributeValue::Text(text.clone()),
        Json::List(elements) => AttributeValue::List(elements.iter().map(attribute).collect()),
        Json::Map(properties) => AttributeValue::Map(attribute_map(properties)),
    }
}
