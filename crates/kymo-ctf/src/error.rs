//! Errors and their positions.

use std::path::PathBuf;

use crate::class::wide_int::WideInt;

/// A position in a metadata text. Both numbers count from 1; a column is a character, not a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Character within the line, from 1.
    pub column: u32,
}

impl Position {
    /// The first character of a text.
    pub const START: Position = Position { line: 1, column: 1 };
}

impl Default for Position {
    fn default() -> Self {
        Position::START
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Metadata that is malformed, inconsistent or unsupported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("metadata, {position}: {message}")]
pub struct MetadataError {
    /// Start of the offending text.
    pub position: Position,
    /// What is wrong, as one sentence without a full stop.
    pub message: String,
}

impl MetadataError {
    pub(crate) fn new(position: Position, message: impl Into<String>) -> Self {
        MetadataError {
            position,
            message: message.into(),
        }
    }
}

/// An error in reading a trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused a file or directory.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// The metadata cannot be used, so nothing of the trace can be read.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// A stream is damaged. Everything before this offset was delivered.
    #[error("{file}, packet {packet}, byte {offset}: {reason}")]
    Stream {
        /// Name of the stream file.
        file: String,
        /// Index of the packet in its file, from 0.
        packet: u64,
        /// File offset of the byte that could not be decoded.
        offset: u64,
        /// What is wrong there.
        reason: DecodeError,
        /// File offset of the packet at which reading resumes; `None` if nothing more can be read.
        resumes: Option<u64>,
    },
}

impl Error {
    /// Always [`InvalidData`](std::io::ErrorKind::InvalidData): every error is in the trace.
    pub fn kind(&self) -> std::io::ErrorKind {
        std::io::ErrorKind::InvalidData
    }

    /// Advice for the user, as a clause that begins with a verb; `None` if the message includes it.
    pub fn advice(&self) -> Option<&'static str> {
        Some(match self {
            Error::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
                "get read permission, or use a copy that you can read"
            }
            Error::Io { .. } => "give the directory of a CTF trace, with its metadata",
            Error::Metadata(_) => "give a trace in CTF 1.8 or CTF 2, or correct the metadata there",
            Error::Stream {
                packet: 0,
                reason: DecodeError::BadMagic(_),
                ..
            } => "move the file away if it is not part of the trace, or copy the trace again",
            Error::Stream { reason, .. } => reason.advice(),
        })
    }
}

/// An error in the bytes of a stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// A field extends past the end of its packet's content.
    #[error("a field needs {needed} bits, but the packet's content has only {left} more")]
    UnexpectedEnd {
        /// Bits that the field or its alignment needs.
        needed: u64,
        /// Remaining bits.
        left: u64,
    },
    /// The file ends inside a packet.
    #[error("the file ends inside this packet, at byte {available} of it")]
    Truncated {
        /// Bytes of the packet that exist.
        available: u64,
    },
    /// Reading the file failed.
    #[error("the stream cannot be read further: {0}")]
    Io(String),
    /// The packet does not begin with the magic number of CTF.
    #[error("expected a packet with the magic number 0xc1fc1fc1, found {0:#010x}")]
    BadMagic(u64),
    /// The packet has another UUID than the metadata. It is read nevertheless; the error comes with
    /// the first such packet of a stream.
    #[error("the packet's UUID differs from the metadata's, as if it belonged to another trace")]
    UuidMismatch,
    /// The metadata has no stream class of this id.
    #[error("the metadata describes no stream class with id {0}")]
    UnknownStream(u64),
    /// The packet belongs to another stream than the previous packets of its file.
    #[error("the packet belongs to another stream than the packets before it")]
    StreamChanged,
    /// The metadata has no event class of this id in this stream class.
    #[error("the metadata describes no event with id {id} in stream class {stream}")]
    UnknownEvent {
        /// Event id found in the record.
        id: u64,
        /// Stream class id.
        stream: u64,
    },
    /// `packet_size` is zero, not whole bytes, or too small for the packet's own header.
    #[error(
        "the packet claims {packet_size} bits, which is impossible: its header and context take \
         {header} bits"
    )]
    BadPacketSize {
        /// The claimed packet size, in bits.
        packet_size: u64,
        /// Size of the packet's header and context, in bits.
        header: u64,
    },
    /// `content_size` is larger than `packet_size` or smaller than the packet's header.
    #[error(
        "the packet claims {content_size} bits of content in {packet_size}, which is impossible: \
         its header and context take {header} bits"
    )]
    BadContentSize {
        /// The claimed content size, in bits.
        content_size: u64,
        /// The claimed packet size, in bits.
        packet_size: u64,
        /// Size of the packet's header and context, in bits.
        header: u64,
    },
    /// An array or a sequence is longer than the rest of the packet.
    #[error("{length} elements do not fit into the {left} bits that the packet's content has left")]
    LengthTooLarge {
        /// The claimed number of elements.
        length: u64,
        /// Remaining bits.
        left: u64,
    },
    /// A length does not fit into 64 bits (CTF 2).
    #[error("a field's length is {}, which is more than any packet holds", .0.brief())]
    WideLength(WideInt),
    /// A number that the reader needs does not fit into 64 bits (CTF 2).
    #[error("{what} is {}, which needs more than 64 bits", .value.brief())]
    TooLarge {
        /// Name of the number.
        what: &'static str,
        /// The number.
        value: WideInt,
    },
    /// A variant's tag has a value that selects no option.
    #[error("the value {} of a variant's tag selects none of its options", .0.brief())]
    NoSuchOption(WideInt),
    /// A length or selector is in an absent optional field, or in an option of a variant that is
    /// not selected (CTF 2).
    #[error("the length or selector of a field is in another field that is absent")]
    AbsentField,
    /// Two integers of different byte orders share a byte, which CTF forbids: the bits of each
    /// would be undefined.
    #[error("the byte order changes inside a byte")]
    ByteOrderInsideByte,
    /// The packet's size is still 0, as tracers leave it until they close the packet.
    #[error("the packet was never closed, so its end must be guessed")]
    NeverClosed,
    /// An event record takes no bits, so it would repeat forever.
    #[error("an event record takes no bits, so the packet could hold any number of them")]
    EmptyRecord,
    /// A stream's clock stepped back.
    #[error("the clock steps back from {from} to {to}")]
    TimeWentBack {
        /// The previous clock value, in ticks.
        from: u64,
        /// The smaller value that follows, in ticks.
        to: u64,
    },
    /// A monotonic counter (`packet_seq_num`, `events_discarded`) decreased.
    #[error("{counter} steps back from {from} to {to}")]
    CounterWentBack {
        /// Name of the member of the packet context.
        counter: &'static str,
        /// Value in the previous packet.
        from: u64,
        /// Value in this packet.
        to: u64,
    },
}

impl DecodeError {
    fn advice(&self) -> &'static str {
        match self {
            DecodeError::Io(_) => "check that the file can be read to its end",
            DecodeError::Truncated { .. } => "copy the trace again after its tracer has ended",
            DecodeError::UuidMismatch | DecodeError::StreamChanged => {
                "move the file out of the trace directory if it belongs to another trace"
            }
            DecodeError::UnknownEvent { .. }
            | DecodeError::UnknownStream(_)
            | DecodeError::NoSuchOption(_)
            | DecodeError::WideLength(_)
            | DecodeError::TooLarge { .. }
            | DecodeError::AbsentField => {
                "give the metadata that the tracer wrote for this trace, or copy the trace again"
            }
            _ => "copy the trace again: it is damaged there",
        }
    }
}
