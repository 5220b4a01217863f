//! `kymo dump --names`: what an event's numbers are called, and the thread that ran.

use kymo_analysis::named_fields;
use kymo_ctf::{EventRef, ItemRef};
use kymo_machine::{Machine, ThreadId};
use kymo_text::json_string;

use super::{Format, escape_controls};

/// Follows the state of the traced machine, and adds names to the lines of events.
pub struct Naming {
    machine: Machine,
    format: Format,
    /// The thread that ran when the last event was recorded: for a switch, the one that left.
    ran: Option<ThreadId>,
}

impl Naming {
    pub fn new(format: Format) -> Naming {
        Naming {
            machine: Machine::new(),
            format,
            ran: None,
        }
    }

    /// Takes the next item, selected or not.
    pub fn follow(&mut self, item: &ItemRef<'_>) {
        self.ran = match item {
            ItemRef::Event(event) => event.cpu().and_then(|cpu| self.machine.running(cpu)),
            _ => None,
        };
        self.machine.add(item);
    }

    /// Adds the names to the line of the last item, which is at the end of `lines`.
    pub fn complete(&self, event: &EventRef<'_>, lines: &mut Vec<u8>) {
        match self.format {
            Format::Kymo => {
                let text = self.text(event);
                if !text.is_empty() && lines.pop_if(|last| *last == b'\n').is_some() {
                    lines.extend_from_slice(text.as_bytes());
                    lines.push(b'\n');
                }
            }
            Format::Json if lines.ends_with(b"}\n") => {
                lines.truncate(lines.len() - 2);
                self.json(event, lines);
                lines.extend_from_slice(b"}\n");
            }
            _ => {}
        }
    }

    fn thread(&self) -> Option<(u64, Option<&str>)> {
        let thread = self.machine.thread(self.ran?)?;
        Some((thread.tid, thread.name.as_deref()))
    }

    /// ` # prev_tid = A, next_tid = B, in A (5)`, or nothing.
    fn text(&self, event: &EventRef<'_>) -> String {
        let mut parts: Vec<String> = named_fields(event, &self.machine)
            .into_iter()
            .map(|(field, name)| format!("{field} = {name}"))
            .collect();
        parts.extend(self.thread().map(|(tid, name)| match name {
            Some(name) => format!("in {name} ({tid})"),
            None => format!("in thread {tid}"),
        }));
        let mut text = match parts.is_empty() {
            true => String::new(),
            false => format!("  # {}", parts.join(", ")),
        };
        escape_controls(&mut text);
        text
    }

    /// `,"names":{"prev_tid":"A"},"thread":{"tid":5,"name":"A"}`.
    fn json(&self, event: &EventRef<'_>, line: &mut Vec<u8>) {
        line.extend_from_slice(br#","names":{"#);
        for (place, (field, name)) in named_fields(event, &self.machine).into_iter().enumerate() {
            if place > 0 {
                line.push(b',');
            }
            json_string(line, field);
            line.push(b':');
            json_string(line, name);
        }
        line.extend_from_slice(br#"},"thread":"#);
        match self.thread() {
            Some((tid, name)) => {
                line.extend_from_slice(format!(r#"{{"tid":{tid},"name":"#).as_bytes());
                match name {
                    Some(name) => json_string(line, name),
                    None => line.extend_from_slice(b"null"),
                }
                line.push(b'}');
            }
            None => line.extend_from_slice(b"null"),
        }
    }
}
