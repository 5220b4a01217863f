//! What can go wrong, and where.

use std::path::PathBuf;

use crate::class::wide_int::WideInt;

/// A place in a metadata text. Both numbers count from 1; a column is a character, not a byte.
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

/// Metadata that is not TSDL, contradicts itself, or asks for something that this reader does not
/// support.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("metadata, {position}: {message}")]
pub struct MetadataError {
    /// Where the offending text begins.
    pub position: Position,
    /// What is wrong with it, as one sentence without a full stop.
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

/// Everything that reading a trace can answer with instead of data.
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
    /// A stream stopped making sense. Everything before this place was delivered.
    #[error("{file}, packet {packet}, byte {offset}: {reason}")]
    Stream {
        /// Name of the stream file.
        file: String,
        /// The packet's place in its file, from 0.
        packet: u64,
        /// Offset in the file of the byte that could not be read as what it should be.
        offset: u64,
        /// What is wrong there.
        reason: DecodeError,
        /// Offset in the file of the packet with which reading goes on; `None` if nothing more can
        /// be read from it.
        resumes: Option<u64>,
    },
}

impl Error {
    /// Always [`InvalidData`](std::io::ErrorKind::InvalidData): the trace is to blame.
    pub fn kind(&self) -> std::io::ErrorKind {
        std::io::ErrorKind::InvalidData
    }

    /// What can be done about it, as the rest of a sentence that begins with a verb; `None` where
    /// the message says it.
    pub fn advice(&self) -> Option<&'static str> {
        Some(match self {
            Error::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
                "get the right to read it, or take a copy that you may read"
            }
            Error::Io { .. } => "give the directory of a CTF trace, with its metadata",
            Error::Metadata(_) => "give a trace in CTF 1.8 or CTF 2, or mend the metadata there",
            Error::Stream { reason, .. } => reason.advice(),
        })
    }
}

/// What is wrong with the bytes of a stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// A field reaches over the end of its packet's content.
    #[error("a field needs {needed} bits, but the packet's content has only {left} more")]
    UnexpectedEnd {
        /// Bits that the field or its alignment takes.
        needed: u64,
        /// Bits that are left.
        left: u64,
    },
    /// The file ends inside a packet.
    #[error("the file ends inside this packet, {available} bytes after the packet's first")]
    Truncated {
        /// Bytes of the packet that are there.
        available: u64,
    },
    /// Reading the file failed.
    #[error("the stream cannot be read further: {0}")]
    Io(String),
    /// The packet does not begin with the magic number of CTF.
    #[error("a packet should begin here with the magic number 0xc1fc1fc1, but there is {0:#010x}")]
    BadMagic(u64),
    /// The packet belongs to another trace.
    #[error("the packet's UUID is not the one in the metadata, so the packet is of another trace")]
    UuidMismatch,
    /// The metadata has no stream class of this id.
    #[error("the metadata describes no stream class with id {0}")]
    UnknownStream(u64),
    /// The packets of a stream file must all be of one stream.
    #[error("the packet is of another stream than the packets before it")]
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
        "the packet says it is {packet_size} bits long, which cannot be: its header and context \
         take {header} bits"
    )]
    BadPacketSize {
        /// The size it claims, in bits.
        packet_size: u64,
        /// What its header and context take, in bits.
        header: u64,
    },
    /// `content_size` is larger than `packet_size` or smaller than the packet's header.
    #[error(
        "the packet says that {content_size} bits of its {packet_size} are content, which cannot \
         be: its header and context take {header} bits"
    )]
    BadContentSize {
        /// The content size it claims, in bits.
        content_size: u64,
        /// The packet size it claims, in bits.
        packet_size: u64,
        /// What its header and context take, in bits.
        header: u64,
    },
    /// An array or a sequence is longer than what is left of the packet.
    #[error("{length} elements cannot be in the {left} bits that the packet's content has left")]
    LengthTooLarge {
        /// Number of elements it claims.
        length: u64,
        /// Bits that are left.
        left: u64,
    },
    /// A length is more than anything can have (CTF 2).
    #[error("a field's length is {}, which is more than any packet holds", .0.brief())]
    WideLength(WideInt),
    /// A number that the reader itself needs is more than 64 bits (CTF 2).
    #[error("{what} is {}, which is more than 64 bits", .value.brief())]
    TooLarge {
        /// What the number is.
        what: &'static str,
        /// The number.
        value: WideInt,
    },
    /// A variant's tag has a value that selects no option.
    #[error("the value {} of a variant's tag selects none of its options", .0.brief())]
    NoSuchOption(WideInt),
    /// A length or selector is in an optional field or an option of a variant that is not there
    /// (CTF 2).
    #[error("the length or selector of a field is in another field that is not there")]
    AbsentField,
    /// Two integers of different byte orders share a byte, which CTF forbids: there is no telling
    /// which bits are whose.
    #[error("the byte order changes inside a byte")]
    ByteOrderInsideByte,
    /// The packet's size is still 0, as tracers write it before they close a packet.
    #[error("the packet was never closed, so where it ends has to be guessed")]
    NeverClosed,
    /// An event record that takes no bits at all would repeat without end.
    #[error("an event record takes no bits, so the packet could hold any number of them")]
    EmptyRecord,
    /// A stream's clock stepped back.
    #[error("the clock steps back from {from} to {to}")]
    TimeWentBack {
        /// Clock value reached before, in ticks.
        from: u64,
        /// The earlier value that follows it, in ticks.
        to: u64,
    },
    /// A counter that can only grow (`packet_seq_num`, `events_discarded`) became smaller.
    #[error("{counter} steps back from {from} to {to}")]
    CounterWentBack {
        /// Name of the packet context's member.
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
            DecodeError::Io(_) => "see that the file can be read to its end",
            DecodeError::Truncated { .. } => {
                "take what stands before it, or copy the trace again when its tracer has ended"
            }
            DecodeError::UuidMismatch | DecodeError::StreamChanged => {
                "move the file out of the trace's directory if it is of another trace"
            }
            DecodeError::UnknownEvent { .. }
            | DecodeError::UnknownStream(_)
            | DecodeError::NoSuchOption(_)
            | DecodeError::WideLength(_)
            | DecodeError::TooLarge { .. }
            | DecodeError::AbsentField => {
                "give the metadata that the tracer wrote with this very trace"
            }
            _ => "take what stands before it, or copy the trace again: it is damaged there",
        }
    }
}
