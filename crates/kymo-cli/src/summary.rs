//! The final messages of record, attach and recover.

use kymo::ring::reader::Losses;
use kymo_capture::Summary;
use kymo_capture::framed::Received;

/// A number with commas between the thousands.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// One line with the totals, and one for each channel with losses.
pub fn sentences(summary: &Summary) -> String {
    let cpus = cpus(summary);
    let mut text = format!(
        "{} events from {cpus} CPU{}",
        thousands(summary.events()),
        if cpus == 1 { "" } else { "s" }
    );
    match summary.lost() {
        0 => text.push_str(", none lost."),
        lost => text.push_str(&format!(", {} lost:", thousands(lost))),
    }
    for channel in summary
        .channels
        .iter()
        .filter(|channel| channel.losses.events() > 0)
    {
        let losses = channel.losses;
        text.push_str(&format!("\n  {}_{}:", channel.kind.label(), channel.cpu));
        let mut comma = "";
        for (count, what) in [
            (
                losses.overwritten,
                "overwritten by newer ones before they were read",
            ),
            (losses.dropped, "dropped because the ring was full"),
            (losses.unreadable, "after a hole or damage in a packet"),
        ] {
            if count > 0 {
                text.push_str(&format!("{comma} {} {what}", thousands(count)));
                comma = ",";
            }
        }
    }
    let total = |count: fn(&Losses) -> u64| {
        summary
            .channels
            .iter()
            .map(|channel| count(&channel.losses))
            .sum::<u64>()
    };
    for (count, what) in [
        (
            total(|losses| losses.clamped),
            "time stamps stepped back and were set to the previous one",
        ),
        (
            total(|losses| losses.too_large),
            "of the dropped events were longer than a packet",
        ),
        (
            total(|losses| losses.abandoned),
            "packets were abandoned because their writer died",
        ),
    ] {
        if count > 0 {
            text.push_str(&format!("\n  {} {what}", thousands(count)));
        }
    }
    text
}

/// A size with its unit: bytes below 10,000, kB below 10 MB, otherwise MB.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{} bytes", thousands(bytes)),
        10_000..10_000_000 => format!("{} kB", thousands(bytes / 1000)),
        _ => format!("{} MB", thousands(bytes / 1_000_000)),
    }
}

/// One line for a trace that the guest sent.
pub fn received(received: &Received) -> String {
    let plural = |count: u64| if count == 1 { "" } else { "s" };
    let packets = format!(
        "{} packet{} ({})",
        thousands(received.packets),
        plural(received.packets),
        size(received.bytes)
    );
    let cpus = format!(
        "from {} CPU{}",
        received.cpus,
        plural(u64::from(received.cpus))
    );
    let lost = match received.closed {
        Some(totals) => totals.discarded.saturating_add(totals.overwritten),
        None => received.discarded,
    };
    let lost = if lost == 0 {
        "no event".to_owned()
    } else {
        format!("{} event{}", thousands(lost), plural(lost))
    };
    format!("{packets} {cpus}; the kernel reports {lost} lost.")
}

/// Transmission faults, one sentence each.
pub fn faults(received: &Received) -> Vec<String> {
    let faults = &received.faults;
    let mut lines = Vec::new();
    for (count, what) in [
        (
            faults.missing,
            "frames were lost (their numbers are missing)",
        ),
        (
            faults.unexpected,
            "frames were duplicated, late or malformed",
        ),
        (
            received.broken,
            "pieces of channels were not whole packets and are left out",
        ),
    ] {
        if count > 0 {
            lines.push(format!("in transit, {} {what}.", thousands(count)));
        }
    }
    if faults.damaged > 0 {
        let (bytes, places) = (thousands(faults.damaged_bytes), thousands(faults.damaged));
        lines.push(format!(
            "in transit, {bytes} bytes in {places} places were damaged and are left out."
        ));
    }
    if received.no_metadata {
        lines.push(
            "the metadata did not arrive complete, so no reader can open the trace.".to_owned(),
        );
    }
    lines
}

fn cpus(summary: &Summary) -> usize {
    let mut cpus: Vec<u32> = summary
        .channels
        .iter()
        .filter(|channel| channel.events > 0)
        .map(|channel| channel.cpu)
        .collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus.len()
}

#[cfg(test)]
mod tests {
    #[test]
    fn thousands_have_commas() {
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(super::thousands),
            ["0", "999", "1,000", "1,234,567"]
        );
    }

    #[test]
    fn sizes_have_units() {
        let sizes = [9999, 10_000, 9_999_999, 10_000_000].map(super::size);
        assert_eq!(sizes, ["9,999 bytes", "10 kB", "9,999 kB", "10 MB"]);
    }
}
