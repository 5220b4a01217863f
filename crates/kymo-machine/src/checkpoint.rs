//! How values of the vocabulary stand in serialized checkpoints.

/// A value of an enumeration as its number.
pub(crate) mod label {
    use kymo::event::{Enumeration, Field, FieldType};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<E: Enumeration + Field, S: Serializer>(
        value: &Option<E>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let number = value.as_ref().and_then(|value| match E::TYPE {
            FieldType::Enumeration { labels, .. } => {
                let mut labels = labels.iter();
                labels.find(|(label, _)| *label == value.label())
            }
            _ => None,
        });
        number.map(|(_, number)| number).serialize(to)
    }

    pub(crate) fn deserialize<'de, E: Enumeration, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<E>, D::Error> {
        let number: Option<u64> = Option::deserialize(from)?;
        Ok(number.and_then(E::from_value))
    }
}
