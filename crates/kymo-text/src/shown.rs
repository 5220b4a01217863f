//! Numbers in sentences.

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

/// A count with its noun, or with a phrase that begins with it: `1 event`, `1,234 events`.
pub fn count(number: u64, one: &str, several: &str) -> String {
    let what = if number == 1 { one } else { several };
    format!("{} {what}", thousands(number))
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
    fn one_is_singular() {
        let counts = [0, 1, 1000].map(|number| super::count(number, "event", "events"));
        assert_eq!(counts, ["0 events", "1 event", "1,000 events"]);
    }
}
