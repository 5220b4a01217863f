//! Field locations: `{"origin": .., "path": [..]}`; in drafts of CTF 2, a path that begins with the
//! origin: `["event-record-payload", ..]`.

use std::sync::Arc;

use super::Checked;
use super::classes::MAX_DEPTH;
use super::object::{Object, list, one_of, wrong};
use super::syntax::{Json, Node};
use crate::class::{FieldLocation, Origin, Scope};

/// Reads the property `name` of `object` as a field location.
pub(super) fn location(object: &Object, name: &str) -> Checked<FieldLocation> {
    let node = object.need(name)?;
    let origins = Scope::ALL.map(|scope| (scope.json(), scope));
    let (origin, path, elements) = if let Json::List(elements) = &node.value {
        let (origin, rest) = of_draft(elements);
        (origin.unwrap_or(Origin::Nearest), node, rest)
    } else {
        let location = Object::new(node, "a field location")?.only(&["origin", "path"])?;
        let origin = location
            .get("origin")
            .map(|node| one_of(node, "`origin`", &origins))
            .transpose()?;
        let path = location.need("path")?;
        let elements = list(path, "a location's `path`")?;
        (origin.map_or(Origin::Here, Origin::Scope), path, elements)
    };
    let (mut names, mut visited): (Vec<Option<Arc<str>>>, Vec<_>) = Default::default();
    for element in elements {
        match &element.value {
            Json::Text(name) => names.push(Some(Arc::from(name.as_str()))),
            Json::Null if names.len() > MAX_DEPTH => {
                return wrong(
                    element,
                    format!("a location cannot go into more than {MAX_DEPTH} structures"),
                );
            }
            // `null` after a member returns to the member's structure.
            Json::Null if matches!(names.last(), Some(Some(_))) => {
                if visited.last() != Some(&names) {
                    visited.push(names.clone());
                }
                names.pop();
            }
            Json::Null if origin == Origin::Here => names.push(None),
            Json::Null => {
                return wrong(
                    element,
                    "`null` leaves the path's origin, around which there is no structure",
                );
            }
            _ => {
                return wrong(
                    element,
                    format!(
                        "an element of a `path` must be a string or `null`, not {}",
                        element.kind()
                    ),
                );
            }
        }
    }
    match elements.last() {
        None => return wrong(path, "a location's `path` must have one element at least"),
        Some(last) if matches!(last.value, Json::Null) => {
            return wrong(
                last,
                "the last element of a `path` must name a field; `null` does not",
            );
        }
        Some(_) => {}
    }
    Ok(FieldLocation {
        visited,
        json: true,
        ..FieldLocation::new(origin, names, node.at)
    })
}

/// Origin, if the first element names one, and path of a draft's location.
fn of_draft(elements: &[Node]) -> (Option<Origin>, &[Node]) {
    let Some((Json::Text(first), rest)) = elements
        .split_first()
        .map(|(first, rest)| (&first.value, rest))
    else {
        return (None, elements);
    };
    let scope = Scope::ALL.into_iter().find(|scope| scope.json() == first);
    scope.map_or((None, elements), |scope| (Some(Origin::Scope(scope)), rest))
}
