//! The syntax tree of a TSDL text, before any lookup.

use crate::error::Position;

/// A value and the position of its text.
#[derive(Debug, Clone)]
pub(crate) struct At<T> {
    pub(crate) position: Position,
    pub(crate) value: T,
}

/// A dotted name such as `clock.monotonic.value`.
pub(crate) type Path = Vec<String>;

/// The right side of `name = ...;`.
#[derive(Debug, Clone)]
pub(crate) enum Expression {
    Number(i128),
    Text(String),
    Path(Path),
}

/// `name = value;` inside a block or a type; dots of the name kept.
#[derive(Debug, Clone)]
pub(crate) struct Assignment {
    pub(crate) name: At<String>,
    pub(crate) value: At<Expression>,
}

/// One entry of a metadata text.
#[derive(Debug)]
pub(crate) enum Item {
    Trace(At<Vec<Statement>>),
    Env(At<Vec<Statement>>),
    Clock(At<Vec<Statement>>),
    Stream(At<Vec<Statement>>),
    Event(At<Vec<Statement>>),
    /// A program location of an event, which is ignored.
    Callsite,
    Declaration(Declaration),
}

/// One entry of a block.
#[derive(Debug)]
pub(crate) enum Statement {
    /// `name = value;`
    Assign(Assignment),
    /// `name := type;`
    AssignType {
        name: At<String>,
        of: At<TypeSpec>,
    },
    Declaration(Declaration),
}

/// A declaration of a named type.
#[derive(Debug)]
pub(crate) enum Declaration {
    /// `typealias type := name;`, and each name of a `typedef`.
    Alias {
        of: At<TypeSpec>,
        names: Vec<Declarator>,
    },
    /// `struct name { ... };`, and likewise for enumerations and variants.
    Named(At<TypeSpec>),
}

/// A type as written.
#[derive(Debug)]
pub(crate) enum TypeSpec {
    Integer(Vec<Assignment>),
    Float(Vec<Assignment>),
    String(Vec<Assignment>),
    Enum {
        name: Option<At<String>>,
        container: Option<Box<At<TypeSpec>>>,
        body: Option<Vec<Enumerator>>,
    },
    Struct {
        name: Option<At<String>>,
        body: Option<Vec<Entry>>,
        align: Option<At<u64>>,
    },
    Variant {
        name: Option<At<String>>,
        tag: Option<At<Path>>,
        body: Option<Vec<Entry>>,
    },
    /// An alias; the words of `unsigned long` are joined by one space.
    Alias(String),
}

/// `label`, `label = low` or `label = low ... high`.
#[derive(Debug, Clone)]
pub(crate) struct Enumerator {
    pub(crate) label: At<String>,
    pub(crate) range: Option<(At<i128>, At<i128>)>,
}

/// One entry of a structure's or a variant's body.
#[derive(Debug)]
pub(crate) enum Entry {
    Fields {
        of: At<TypeSpec>,
        names: Vec<Declarator>,
    },
    Declaration(Declaration),
}

/// A name and the array brackets after it, outermost dimension first.
#[derive(Debug)]
pub(crate) struct Declarator {
    pub(crate) name: At<String>,
    /// `:N` after the name: a C bit-field of N bits.
    pub(crate) bits: Option<At<u64>>,
    /// Stars before the name: the type is the alias of that name with as many stars.
    pub(crate) stars: usize,
    pub(crate) dimensions: Vec<At<Length>>,
}

/// The length between the brackets of an array.
#[derive(Debug, Clone)]
pub(crate) enum Length {
    Fixed(u64),
    Field(Path),
}
