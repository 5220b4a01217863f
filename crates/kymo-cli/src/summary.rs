//! What record and recover say at their end.

use kymo::ring::reader::Losses;
use kymo_capture::Summary;

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

/// One line for the whole, one for each channel that lost something.
pub fn sentences(summary: &Summary) -> String {
    let cpus = cpus(summary);
    let mut text = format!("{} events from {cpus} CPU{}", thousands(summary.events()), if cpus == 1 { "" } else { "s" });
    match summary.lost() {
        0 => text.push_str(", none lost."),
        lost => text.push_str(&format!(", {} lost:", thousands(lost))),
    }
    for channel in summary.channels.iter().filter(|channel| channel.losses.events() > 0) {
        let losses = channel.losses;
        text.push_str(&format!("\n  {}_{}:", channel.kind.label(), channel.cpu));
        let mut comma = "";
        for (count, what) in [
            (losses.overwritten, "overwritten by newer ones before they were read"),
            (losses.dropped, "dropped because the ring was full"),
            (losses.unreadable, "behind a hole or damage in a packet"),
        ] {
            if count > 0 {
                text.push_str(&format!("{comma} {} {what}", thousands(count)));
                comma = ",";
            }
        }
    }
    let total = |count: fn(&Losses) -> u64| summary.channels.iter().map(|channel| count(&channel.losses)).sum::<u64>();
    for (count, what) in [
        (total(|losses| losses.clamped), "time stamps stepped back and were set to the one before"),
        (total(|losses| losses.too_large), "of the dropped events were longer than a packet"),
        (total(|losses| losses.abandoned), "packets were given up because a writer had died in them"),
    ] {
        if count > 0 {
            text.push_str(&format!("\n  {} {what}", thousands(count)));
        }
    }
    text
}

fn cpus(summary: &Summary) -> usize {
    let mut cpus: Vec<u32> = summary.channels.iter().filter(|channel| channel.events > 0).map(|channel| channel.cpu).collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus.len()
}

#[cfg(test)]
mod tests {
    #[test]
    fn thousands_have_commas() {
        assert_eq!([0, 999, 1000, 1_234_567].map(super::thousands), ["0", "999", "1,000", "1,234,567"]);
    }
}
