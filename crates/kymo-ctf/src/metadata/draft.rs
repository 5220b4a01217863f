//! The output of a front end: metadata without the links between fields. [`Draft::link`] turns it
//! into [`Metadata`].

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::class::StructClass;
use crate::class::attribute::Attributes;
use crate::error::{MetadataError, Position};
use crate::metadata::clock::ClockClass;
use crate::metadata::link;
use crate::metadata::{EnvValue, EventClass, Metadata, StreamClass, TraceClass};

/// A metadata text after parsing.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) trace: TraceClass,
    pub(crate) packet_header: Option<StructClass>,
    pub(crate) env: Vec<(String, EnvValue)>,
    pub(crate) clocks: Vec<Arc<ClockClass>>,
    pub(crate) streams: Vec<DraftStream>,
    /// Warnings about text that is unusual but valid.
    pub(crate) warnings: Vec<MetadataError>,
}

/// A stream class and its event classes.
#[derive(Debug, Default)]
pub(crate) struct DraftStream {
    pub(crate) position: Position,
    pub(crate) id: u64,
    pub(crate) name: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) uid: Option<String>,
    pub(crate) clock: Option<Arc<ClockClass>>,
    pub(crate) packet_context: Option<StructClass>,
    pub(crate) event_header: Option<StructClass>,
    pub(crate) event_context: Option<StructClass>,
    pub(crate) events: Vec<DraftEvent>,
    pub(crate) attributes: Attributes,
}

/// An event class.
#[derive(Debug)]
pub(crate) struct DraftEvent {
    pub(crate) position: Position,
    pub(crate) id: u64,
    pub(crate) name: Arc<str>,
    pub(crate) namespace: Option<String>,
    pub(crate) uid: Option<String>,
    pub(crate) log_level: Option<i64>,
    pub(crate) context: Option<StructClass>,
    pub(crate) fields: Option<StructClass>,
    pub(crate) attributes: Attributes,
}

impl Draft {
    /// Links lengths, tags and selectors to the fields that hold them.
    pub(crate) fn link(mut self) -> Result<Metadata, MetadataError> {
        let slots = link::link(&mut self)?;
        let mut trace = self.trace;
        trace.packet_header = self.packet_header.map(Arc::new);
        let mut streams = BTreeMap::new();
        let mut index = 0;
        for mut draft in self.streams {
            let DraftStream { position, id, .. } = draft;
            // The sort is stable, so that the second of two events with the same id is refused.
            draft.events.sort_by_key(|event| event.id);
            let mut events = BTreeMap::new();
            for event in draft.events {
                let class = EventClass {
                    id: event.id,
                    name: event.name,
                    namespace: event.namespace,
                    uid: event.uid,
                    stream_id: id,
                    log_level: event.log_level,
                    context: event.context.map(Arc::new),
                    fields: event.fields.map(Arc::new),
                    attributes: event.attributes,
                    index,
                };
                index += 1;
                if events.insert(class.id, Arc::new(class)).is_some() {
                    let message =
                        format!("there are two events with id {} in stream {id}", event.id);
                    return Err(MetadataError::new(event.position, message));
                }
            }
            let class = Arc::new(StreamClass {
                id,
                name: draft.name,
                namespace: draft.namespace,
                uid: draft.uid,
                clock: draft.clock,
                packet_context: draft.packet_context.map(Arc::new),
                event_header: draft.event_header.map(Arc::new),
                event_context: draft.event_context.map(Arc::new),
                events,
                attributes: draft.attributes,
            });
            if streams.insert(id, class).is_some() {
                return Err(MetadataError::new(
                    position,
                    format!("there are two streams with id {id}"),
                ));
            }
        }
        Ok(Metadata {
            trace,
            env: self.env,
            clocks: self.clocks,
            streams,
            slots,
            event_classes: index as usize,
            warnings: self.warnings,
        })
    }
}
