//! Attributes: metadata that decoding does not need (CTF 2's `attributes`).

use std::sync::Arc;

use crate::class::wide_int::WideInt;

/// The namespace in which babeltrace2 keeps event properties of CTF 1.8 that CTF 2 does not have.
pub(crate) const BABELTRACE: &str = "babeltrace.org,2020";

/// Name in [`BABELTRACE`] for CTF 1.8's `model.emf.uri`.
pub(crate) const EMF_URI: &str = "emf-uri";

/// Attributes of one element by namespace, as written; usually none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Attributes(pub(crate) Option<Arc<Vec<(String, AttributeValue)>>>);

impl Attributes {
    /// The attributes of a namespace (`""` is the empty one).
    pub fn get(&self, namespace: &str) -> Option<&AttributeValue> {
        self.iter()
            .find(|(name, _)| *name == namespace)
            .map(|(_, value)| value)
    }

    /// All attributes, in the order of the text.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &AttributeValue)> {
        self.0
            .iter()
            .flat_map(|all| all.iter())
            .map(|(name, value)| (name.as_str(), value))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

/// Any JSON value.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum AttributeValue {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number without a fraction.
    Integer(i128),
    /// A number without a fraction that does not fit into an `i128`.
    Wide(WideInt),
    /// Any other number.
    Real(f64),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<AttributeValue>),
    /// An object, in the order of the text.
    Map(Vec<(String, AttributeValue)>),
}
