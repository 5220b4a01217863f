//! The final messages of record, attach and recover.

use kymo::ring::reader::Losses;
use kymo_capture::framed::Received;
use kymo_capture::{ChannelSummary, Summary};

pub use kymo_text::{count, thousands};

/// States that a trace lacks events which its kernel counted.
pub fn missing_events(number: u64) -> String {
    let events = count(number, "event is", "events are");
    format!(
        "{events} missing that the kernel counted until its session ended; a stream file may be \
         missing or incomplete"
    )
}

/// One line with the totals, and one for each channel with losses.
pub fn sentences(summary: &Summary) -> String {
    let mut text = format!(
        "{} from {}",
        count(summary.events(), "event", "events"),
        count(cpus(summary), "CPU", "CPUs")
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
        for (number, what) in [
            (
                losses.overwritten,
                "overwritten by newer ones before they were read",
            ),
            (
                losses.dropped.saturating_sub(losses.without_ring),
                "dropped because the ring was full",
            ),
            (losses.without_ring, "of CPUs that have no ring"),
            (losses.unreadable, "after a hole or damage in a packet"),
        ] {
            if number > 0 {
                text.push_str(&format!("{comma} {} {what}", thousands(number)));
                comma = ",";
            }
        }
    }
    let total = |part: fn(&Losses) -> u64| {
        let channels = summary.channels.iter();
        channels.map(|channel| part(&channel.losses)).sum::<u64>()
    };
    for (number, one, several) in [
        (
            total(|losses| losses.steps_back),
            "record was earlier than the one before it: its CPU's clock stepped back",
            "records were earlier than the one before them: their CPUs' clocks stepped back",
        ),
        (
            total(|losses| losses.clamped),
            "time stamp was set to an earlier record's because of that",
            "time stamps were set to an earlier record's because of that",
        ),
        (
            total(|losses| losses.too_large),
            "of the dropped events was longer than a packet",
            "of the dropped events were longer than a packet",
        ),
        (
            total(|losses| losses.abandoned),
            "packet was abandoned because its writer died",
            "packets were abandoned because their writer died",
        ),
    ] {
        if number > 0 {
            text.push_str(&format!("\n  {}", count(number, one, several)));
        }
    }
    let is_full = |channel: &ChannelSummary| {
        let Losses {
            dropped,
            without_ring,
            too_large,
            ..
        } = channel.losses;
        channel.drops_unasked && dropped > without_ring.saturating_add(too_large)
    };
    if summary.channels.iter().any(is_full) {
        text.push_str(
            "\n  full rings do not wait for the host in this session: have it free their packets \
             (Config::consumer; in C .flags = KYMO_HOST_READS), or keep the newest events \
             (--rolling)",
        );
    }
    text
}

/// How many of the lost events a recording that came late could not have kept; `None` where there
/// are none.
pub fn lost_before(summary: &Summary) -> Option<String> {
    let (before, lost) = (summary.lost_before(), summary.lost());
    let were = match before {
        0 => return None,
        before if before >= lost => "all of the lost events were".to_owned(),
        before => format!(
            "{} of the lost events {}",
            thousands(before),
            if before == 1 { "was" } else { "were" }
        ),
    };
    Some(format!("{were} lost before it was attached."))
}

/// A size with its unit: bytes below 10,000, kB below 10 MB, otherwise MB.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => count(bytes, "byte", "bytes"),
        10_000..10_000_000 => format!("{} kB", thousands(bytes / 1000)),
        _ => format!("{} MB", thousands(bytes / 1_000_000)),
    }
}

/// One line for a trace that the guest sent.
pub fn received(received: &Received) -> String {
    let packets = count(received.packets, "packet", "packets");
    let size = size(received.bytes);
    let cpus = count(u64::from(received.cpus), "CPU", "CPUs");
    let lost = match received.closed {
        Some(totals) => totals.discarded.saturating_add(totals.overwritten),
        None => received.discarded,
    };
    let lost = match lost {
        0 => "no event".to_owned(),
        lost => count(lost, "event", "events"),
    };
    format!("{packets} ({size}) from {cpus}; the kernel reports {lost} lost.")
}

/// Transmission faults, one sentence each.
pub fn faults(received: &Received) -> Vec<String> {
    let faults = &received.faults;
    let mut lines = Vec::new();
    for (number, one, several) in [
        (
            faults.missing,
            "frame was lost (its number is missing)",
            "frames were lost (their numbers are missing)",
        ),
        (
            faults.unexpected,
            "frame was duplicated, late or malformed",
            "frames were duplicated, late or malformed",
        ),
        (
            received.broken,
            "piece of a channel was not a whole packet and is left out",
            "pieces of channels were not whole packets and are left out",
        ),
    ] {
        if number > 0 {
            lines.push(format!("in transit, {}.", count(number, one, several)));
        }
    }
    if faults.damaged > 0 {
        let bytes = count(faults.damaged_bytes, "byte", "bytes");
        let places = count(faults.damaged, "place", "places");
        lines.push(format!(
            "in transit, {bytes} in {places} were damaged and are left out."
        ));
    }
    if received.no_metadata {
        lines.push(
            "the metadata did not arrive complete, so no reader can open the trace.".to_owned(),
        );
    }
    lines
}

fn cpus(summary: &Summary) -> u64 {
    let mut cpus: Vec<u32> = summary
        .channels
        .iter()
        .filter(|channel| channel.events > 0)
        .map(|channel| channel.cpu)
        .collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus.len() as u64
}

#[cfg(test)]
mod tests {
    use kymo::ChannelKind;

    use super::*;

    /// The summary distinguishes a ring that stays full, one that the host emptied too slowly, and a
    /// CPU that has none.
    #[test]
    fn dropped_events_have_their_cause() {
        let told = |drops_unasked, dropped, without_ring| {
            let losses = Losses {
                dropped,
                without_ring,
                ..Losses::default()
            };
            let channel = ChannelSummary {
                kind: ChannelKind::Events,
                cpu: 0,
                events: 10,
                losses,
                drops_unasked,
                lost_before: 0,
            };
            let channels = vec![channel];
            super::sentences(&Summary { channels })
        };
        let full = "events_0: 5 dropped because the ring was full";
        let flag = "KYMO_HOST_READS";
        let text = told(true, 5, 0);
        assert!(text.contains(full) && text.contains(flag), "{text}");
        let text = told(false, 5, 0);
        assert!(text.contains(full) && !text.contains(flag), "{text}");
        let text = told(true, 7, 7);
        assert!(
            text.contains("events_0: 7 of CPUs that have no ring"),
            "{text}"
        );
        assert!(!text.contains("full"), "{text}");
        let text = told(true, 12, 7);
        assert!(
            text.contains(&format!("{full}, 7 of CPUs that have no ring")),
            "{text}"
        );
        assert!(text.contains("12 lost") && text.contains(flag), "{text}");
    }

    #[test]
    fn sizes_have_units() {
        let sizes = [1, 9999, 10_000, 9_999_999, 10_000_000].map(super::size);
        assert_eq!(
            sizes,
            ["1 byte", "9,999 bytes", "10 kB", "9,999 kB", "10 MB"]
        );
    }
}
