//! What a kernel's command line says about recording: the word `kymo=`, with any of these,
//! separated by commas:
//!
//! | | |
//! | --- | --- |
//! | `start`, `off` | record from the first moment on; do not |
//! | `rolling`, `discard` | a full ring loses its oldest packet, or the new event |
//! | `reader=none`, `reader=kernel`, `reader=host` | who takes packets out of a ring that discards |
//! | `events=NAME:NAME..` | only these are on; a name may end with `*` |
//! | `send` | a program of the kernel's is to start, read, and send what it read over a port (see [`wire`](crate::wire)) |
//!
//! The kernel decides what the word leaves open. `kymo record` writes this word when it is asked
//! for a kind of recording.

use crate::event::{Vocabulary, name_fits};
use crate::recorder::flags;
use crate::ring::config::Config;
use crate::ring::layout::{Consumer, Overflow};

/// What the word says; `None` for what it does not mention.
///
/// ```
/// let options = kymo::boot::Options::parse("console=ttyS0 kymo=start,rolling,events=sched_*:irq_handler_entry").unwrap();
/// assert_eq!(options.start, Some(true));
/// assert_eq!(options.overflow, Some(kymo::Overflow::Overwrite));
/// assert!(options.records("sched_switch") && !options.records("syscall_enter"));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options<'a> {
    /// Whether to record from the first moment on.
    pub start: Option<bool>,
    /// What a full ring does.
    pub overflow: Option<Overflow>,
    /// Who reads.
    pub consumer: Option<Consumer>,
    /// Whether a program is to record and send.
    pub send: bool,
    /// Names of events, separated by colons.
    pub events: Option<&'a str>,
}

impl<'a> Options<'a> {
    /// Reads every word `kymo=` of the line; later parts win.
    ///
    /// # Errors
    /// The part of such a word that cannot be used.
    pub fn parse(line: &'a str) -> Result<Options<'a>, &'a str> {
        let mut options = Options::default();
        let words = line
            .split_ascii_whitespace()
            .filter_map(|word| word.strip_prefix("kymo="));
        for part in words.flat_map(|word| word.split(',')) {
            match part {
                "start" => options.start = Some(true),
                "off" => options.start = Some(false),
                "rolling" => options.overflow = Some(Overflow::Overwrite),
                "discard" => options.overflow = Some(Overflow::Discard),
                "reader=none" => options.consumer = Some(Consumer::None),
                "reader=kernel" => options.consumer = Some(Consumer::Kernel),
                "reader=host" => options.consumer = Some(Consumer::Host),
                "send" => options.send = true,
                _ => match part.strip_prefix("events=") {
                    Some(names) if names.split(':').all(|name| !name.is_empty()) => {
                        options.events = Some(names)
                    }
                    _ => return Err(part),
                },
            }
        }
        Ok(options)
    }

    /// The configuration, changed as the word says.
    pub fn apply(&self, config: &Config) -> Config {
        Config {
            overflow: self.overflow.unwrap_or(config.overflow),
            consumer: self.consumer.unwrap_or(config.consumer),
            ..*config
        }
    }

    /// The flags for [`Recorder::start`](crate::Recorder::start), changed as the word says.
    pub fn flags(&self, default: u32) -> u32 {
        match self.overflow {
            Some(Overflow::Overwrite) => default | flags::ROLLING,
            Some(Overflow::Discard) => default & !flags::ROLLING,
            None => default,
        }
    }

    /// The first name that fits no event of the vocabulary: a kernel refuses it rather than record
    /// less than was asked for.
    pub fn stray(&self, vocabulary: &Vocabulary) -> Option<&'a str> {
        let is_stray = |pattern: &&str| {
            !vocabulary
                .events()
                .iter()
                .any(|event| name_fits(pattern, event.name))
        };
        self.events?.split(':').find(is_stray)
    }

    /// Whether an event of this name is to be on.
    pub fn records(&self, name: &str) -> bool {
        self.events
            .is_none_or(|names| names.split(':').any(|pattern| name_fits(pattern, name)))
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn the_word_is_found_and_later_parts_win() {
        assert_eq!(
            Options::parse("root=/dev/vda quiet"),
            Ok(Options::default())
        );
        assert_eq!(
            Options::parse("kymo=off x kymo=start,discard,reader=kernel,send"),
            {
                Ok(Options {
                    start: Some(true),
                    overflow: Some(Overflow::Discard),
                    consumer: Some(Consumer::Kernel),
                    send: true,
                    events: None,
                })
            }
        );
        for (reader, consumer) in [("none", Consumer::None), ("host", Consumer::Host)] {
            assert_eq!(
                Options::parse(&format!("kymo=reader={reader}"))
                    .unwrap()
                    .consumer,
                Some(consumer)
            );
        }
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        for (line, part) in [
            ("kymo=", ""),
            ("kymo=start,,rolling", ""),
            ("kymo=on", "on"),
            ("kymo=start=1", "start=1"),
            ("kymo=off=", "off="),
            ("kymo=reader=host=", "reader=host="),
            ("a kymo=start,reader=me b", "reader=me"),
            ("kymo=events=", "events="),
            ("kymo=events=a::b", "events=a::b"),
        ] {
            assert_eq!(Options::parse(line), Err(part), "{line}");
        }
    }

    #[test]
    fn only_the_named_events_are_on() {
        let options = Options::parse("kymo=events=irq_*:sched_switch").unwrap();
        let on = ["irq_handler_entry", "irq_", "sched_switch"];
        let off = ["sched_switch_", "sched", "irq", "syscall_enter"];
        assert!(on.iter().all(|name| options.records(name)));
        assert!(!off.iter().any(|name| options.records(name)));
        assert!(Options::default().records("anything"));
        let stray = |line| Options::parse(line).unwrap().stray(&crate::vocabulary::ALL);
        assert_eq!(
            (stray(""), stray("kymo=events=irq_*:sched_switch")),
            (None, None)
        );
        assert_eq!(
            stray("kymo=events=irq_*:sched_swich:nothing*"),
            Some("sched_swich")
        );
    }

    #[test]
    fn rolling_and_discarding_become_flags() {
        let flags = |line| Options::parse(line).unwrap().flags(flags::ROLLING);
        assert_eq!(
            (flags(""), flags("kymo=discard"), flags("kymo=rolling")),
            (1, 0, 1)
        );
        assert_eq!(Options::parse("kymo=rolling").unwrap().flags(0), 1);
    }
}
