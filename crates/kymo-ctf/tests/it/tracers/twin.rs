//! The metadata of a random trace in CTF 2, for the same streams.

use super::random::{COMMON, Context, Int, Order, Ty};

/// Properties of a trace other than the types of its fields.
pub(crate) struct Shape<'a> {
    pub(crate) native: Order,
    pub(crate) id: Int,
    pub(crate) time: Int,
    pub(crate) context: Context,
    pub(crate) common: Option<&'a Ty>,
    pub(crate) classes: &'a [(Option<Ty>, Ty)],
}

type Members = [(String, Ty)];

impl Shape<'_> {
    pub(crate) fn json(&self) -> String {
        let int = |int, role: &str| {
            self.int(
                int,
                &if role.is_empty() {
                    String::new()
                } else {
                    format!(r#","roles":["{role}"]"#)
                },
            )
        };
        let magic = structure(
            1,
            &[member(
                "magic",
                &int(Int::unsigned(32, 8), "packet-magic-number"),
            )],
        );
        let context = self.context.fields();
        let context: Vec<String> = context
            .iter()
            .map(|(name, role, ty)| member(name, &int(*ty, role)))
            .collect();
        let header = [
            member("id", &int(self.id, "event-record-class-id")),
            member("timestamp", &int(self.time, "default-clock-timestamp")),
        ];
        let common = self.common.map(|ty| {
            format!(
                r#","event-record-common-context-field-class":{}"#,
                self.class(ty, &mut Vec::new())
            )
        });
        let mut fragments = vec![
            r#"{"type":"preamble","version":2}"#.to_owned(),
            format!(r#"{{"type":"trace-class","packet-header-field-class":{magic}}}"#),
            r#"{"type":"clock-class","id":"c","name":"c","frequency":1000000000}"#.to_owned(),
            format!(
                r#"{{"type":"data-stream-class","default-clock-class-id":"c","packet-context-field-class":{},"event-record-header-field-class":{}{}}}"#,
                structure(1, &context),
                structure(1, &header),
                common.unwrap_or_default(),
            ),
        ];
        for (number, (context, fields)) in self.classes.iter().enumerate() {
            let context = context.as_ref().map(|ty| {
                format!(
                    r#","specific-context-field-class":{}"#,
                    self.class(ty, &mut Vec::new())
                )
            });
            fragments.push(format!(
                r#"{{"type":"event-record-class","id":{number},"name":"event{number}"{},"payload-field-class":{}}}"#,
                context.unwrap_or_default(),
                self.class(fields, &mut Vec::new()),
            ));
        }
        fragments
            .iter()
            .map(|fragment| format!("\x1e{fragment}\n"))
            .collect()
    }

    fn order(&self, order: Option<Order>) -> &'static str {
        match order.unwrap_or(self.native) {
            Order::Little => "little-endian",
            Order::Big => "big-endian",
        }
    }

    fn int(&self, int: Int, more: &str) -> String {
        let sign = if int.signed { "signed" } else { "unsigned" };
        let order = self.order(int.order);
        format!(
            r#"{{"type":"fixed-length-{sign}-integer","length":{},"byte-order":"{order}","alignment":{},"preferred-display-base":{}{more}}}"#,
            int.size, int.align, int.base
        )
    }

    fn mappings(&self, int: Int, ranges: impl Iterator<Item = (String, i128, i128)>) -> String {
        let mappings: Vec<String> = ranges
            .map(|(label, from, to)| format!(r#""{label}":[[{from},{to}]]"#))
            .collect();
        self.int(int, &format!(r#","mappings":{{{}}}"#, mappings.join(",")))
    }

    /// The field class of `ty`; `around` are the enclosing structures, innermost last.
    fn class<'a>(&self, ty: &'a Ty, around: &mut Vec<&'a Members>) -> String {
        match ty {
            Ty::Int(int) => self.int(*int, ""),
            Ty::Enum(int, ranges) => {
                let label = |i: usize| {
                    if i.is_multiple_of(2) {
                        format!("L{i}")
                    } else {
                        format!("a label {i}")
                    }
                };
                self.mappings(
                    *int,
                    ranges
                        .iter()
                        .enumerate()
                        .map(|(i, (from, to))| (label(i), *from, *to)),
                )
            }
            Ty::Tag(int, labels) => self.mappings(
                *int,
                labels
                    .iter()
                    .zip(0..)
                    .map(|(label, i)| (label.clone(), i, i)),
            ),
            Ty::Float(size, align) => {
                let order = self.order(None);
                format!(
                    r#"{{"type":"fixed-length-floating-point-number","length":{size},"byte-order":"{order}","alignment":{align}}}"#
                )
            }
            Ty::Text => r#"{"type":"null-terminated-string"}"#.to_owned(),
            Ty::Chars(count) => format!(r#"{{"type":"static-length-string","length":{count}}}"#),
            Ty::Array(element, count) => {
                format!(
                    r#"{{"type":"static-length-array","length":{count},"element-field-class":{}}}"#,
                    self.class(element, around)
                )
            }
            Ty::Sequence(length, element) => format!(
                r#"{{"type":"dynamic-length-array","length-field-location":{},"element-field-class":{}}}"#,
                location(length, around),
                self.class(element, around)
            ),
            Ty::Struct(align, members) => {
                around.push(members);
                let members: Vec<String> = members
                    .iter()
                    .map(|(name, ty)| member(name, &self.class(ty, around)))
                    .collect();
                around.pop();
                structure(*align, &members)
            }
            Ty::Variant(tag, options) => {
                let options = options.iter().enumerate().map(|(i, (name, ty))| {
                    format!(r#"{{"name":"{name}","field-class":{},"selector-field-ranges":[[{i},{i}]]}}"#, self.class(ty, around))
                });
                let options: Vec<String> = options.collect();
                format!(
                    r#"{{"type":"variant","selector-field-location":{},"options":[{}]}}"#,
                    location(tag, around),
                    options.join(",")
                )
            }
        }
    }
}

/// The name without the escaping underscore of CTF 1.8, which CTF 2 does not need.
fn bare(name: &str) -> &str {
    name.strip_prefix('_').unwrap_or(name)
}

fn member(name: &str, class: &str) -> String {
    let name = bare(name);
    format!(r#"{{"name":"{name}","field-class":{class}}}"#)
}

fn structure(align: u32, members: &[String]) -> String {
    format!(
        r#"{{"type":"structure","minimum-alignment":{align},"member-classes":[{}]}}"#,
        members.join(",")
    )
}

/// The path out of as many structures as needed to see the field.
fn location(name: &str, around: &[&Members]) -> String {
    if let Some(name) = name.strip_prefix(COMMON) {
        return format!(
            r#"{{"origin":"event-record-common-context","path":["{}"]}}"#,
            bare(name)
        );
    }
    let out = around
        .iter()
        .rev()
        .take_while(|members| members.iter().all(|(other, _)| other != name))
        .count();
    format!(r#"{{"path":[{}"{}"]}}"#, "null,".repeat(out), bare(name))
}
