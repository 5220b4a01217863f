//! The streams of the trace: what their events mean, and what their last event tells about the
//! next one.

use std::sync::Arc;

use kymo_ctf::{EventRef, Metadata};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::typed::{self, Class, Tracer};

/// A stream of the trace.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) known: Arc<Known>,
    pub(crate) last: LastOf,
}

/// A trace's metadata, with the meaning of its event classes.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    metadata: Arc<Metadata>,
    pub(crate) classes: Box<[Class]>,
    /// Whether its losses precede the packet that reports them.
    pub(crate) is_kymo: bool,
    /// Whether Kymo recorded it in a program that switches no threads of its own.
    pub(crate) is_program: bool,
}

/// What is kept of a stream's last event.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LastOf {
    /// The stream's name.
    name: Arc<str>,
    /// Whether Kymo recorded the stream.
    is_kymo: bool,
    /// Number and index of the event's CPU.
    pub(crate) cpu: Option<(u64, usize)>,
    /// Numbers of the process and the thread in its context.
    pub(crate) process: Option<(u64, u64)>,
}

/// The streams, by [`EventRef::stream_index`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams {
    read: Vec<Option<Box<Stream>>>,
    /// What was restored of streams that are not read yet: what their events mean is found again at
    /// their next one.
    restored: Vec<Option<LastOf>>,
}

impl Streams {
    /// The stream of an event, taken out: [`put_back`](Self::put_back) it.
    #[inline]
    pub(crate) fn take(&mut self, event: &EventRef<'_>) -> Box<Stream> {
        let stream = self.read.get_mut(event.stream_index());
        match stream.and_then(Option::take) {
            Some(stream) => stream,
            None => self.meet(event),
        }
    }

    #[inline]
    pub(crate) fn put_back(&mut self, place: usize, stream: Box<Stream>) {
        if let Some(cell) = self.read.get_mut(place) {
            *cell = Some(stream);
        }
    }

    #[inline]
    pub(crate) fn get(&self, place: usize) -> Option<&Stream> {
        self.read.get(place)?.as_deref()
    }

    /// Adds a stream, and resolves the meaning of its event classes.
    #[cold]
    fn meet(&mut self, event: &EventRef<'_>) -> Box<Stream> {
        let (place, metadata) = (event.stream_index(), event.metadata());
        let mut known = self.read.iter().flatten().map(|stream| &stream.known);
        let known = known.find(|known| Arc::ptr_eq(&known.metadata, metadata));
        let known = known.cloned().unwrap_or_else(|| {
            let tracer = Tracer::of(metadata);
            Arc::new(Known {
                metadata: Arc::clone(metadata),
                classes: typed::classes(metadata, &tracer),
                is_kymo: tracer.is_kymo,
                is_program: tracer.is_kymo && tracer.is_program && !typed::switches(metadata),
            })
        });
        if self.read.len() <= place {
            self.read.resize(place + 1, None);
        }
        let restored = self.restored.get_mut(place).and_then(Option::take);
        let last = restored.unwrap_or_else(|| LastOf {
            name: Arc::clone(event.stream()),
            is_kymo: known.is_kymo,
            cpu: None,
            process: None,
        });
        Box::new(Stream { known, last })
    }

    /// What is kept of each stream's last event, by the stream's index.
    fn lasts(&self) -> impl Iterator<Item = Option<&LastOf>> {
        let places = 0..self.read.len().max(self.restored.len());
        places.map(|place| {
            let read = self.get(place).map(|stream| &stream.last);
            read.or_else(|| self.restored.get(place)?.as_ref())
        })
    }

    /// What is kept of the last event of the stream of this name.
    pub(crate) fn last_of(&self, name: &str) -> Option<&LastOf> {
        self.lasts().flatten().find(|last| *last.name == *name)
    }

    /// Whether another tracer than Kymo recorded one of them.
    pub(crate) fn is_foreign(&self) -> bool {
        self.lasts().flatten().any(|last| !last.is_kymo)
    }

    /// Number of streams.
    pub(crate) fn len(&self) -> usize {
        self.lasts().count()
    }
}

impl Serialize for Streams {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.lasts())
    }
}

impl<'de> Deserialize<'de> for Streams {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Streams, D::Error> {
        Ok(Streams {
            read: Vec::new(),
            restored: Vec::deserialize(from)?,
        })
    }
}
