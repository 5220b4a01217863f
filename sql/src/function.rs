//! Functions that SQL lacks: durations in words, names by patterns, percentiles.

use std::sync::Arc;

use datafusion::arrow::array::{Array, BooleanArray, Float64Array, Int64Array, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::execution::FunctionRegistry;
use datafusion::functions_aggregate::percentile_cont::percentile_cont_udaf;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};

/// Adds the functions to a session, or to what a worker runs a part of a query with.
///
/// # Errors
/// Those of the registry; that of a session has none.
pub(crate) fn add(to: &mut dyn FunctionRegistry) -> Result<()> {
    for function in [ns(), glob(), overlap(), p_value()] {
        to.register_udf(Arc::new(function))?;
    }
    // Exact: what lies between two values is interpolated.
    let percentile = (*percentile_cont_udaf()).clone();
    to.register_udaf(Arc::new(percentile.with_aliases(["percentile"])))?;
    Ok(())
}

fn error(sentence: String) -> DataFusionError {
    DataFusionError::Plan(sentence)
}

fn texts(value: &ColumnarValue, rows: usize) -> Result<StringArray> {
    let array = value.to_array(rows)?;
    let array = datafusion::arrow::compute::cast(&array, &DataType::Utf8)?;
    let texts = array.as_any().downcast_ref::<StringArray>().cloned();
    texts.ok_or_else(|| error("a text was expected".to_owned()))
}

/// The results as the engine wants them: one for values that are all the same for each row.
fn given(values: &[ColumnarValue], results: impl Array + 'static) -> Result<ColumnarValue> {
    let is_scalar = |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(_));
    Ok(match values.iter().all(is_scalar) {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&results, 0)?),
        false => ColumnarValue::Array(Arc::new(results)),
    })
}

fn rows(values: &[ColumnarValue]) -> usize {
    let rows = values.iter().find_map(|value| match value {
        ColumnarValue::Array(array) => Some(array.len()),
        ColumnarValue::Scalar(_) => None,
    });
    rows.unwrap_or(1)
}

/// `ns('5ms')`: a duration in nanoseconds.
fn ns() -> ScalarUDF {
    let run = |values: &[ColumnarValue]| {
        let value = values
            .first()
            .ok_or_else(|| error("ns('5ms') takes a text".to_owned()))?;
        let nanos = texts(value, rows(values))?
            .iter()
            .map(|text| text.map(nanos).transpose())
            .collect::<Result<Int64Array>>()?;
        given(values, nanos)
    };
    create_udf(
        "ns",
        vec![DataType::Utf8],
        DataType::Int64,
        Volatility::Immutable,
        Arc::new(run),
    )
}

/// A duration in nanoseconds, such as `5ms`, `1.5us` or `-2s`. Exact, or an error.
fn nanos(text: &str) -> Result<i64> {
    let wrong = || {
        let units = "ns, us, ms, s, min or h";
        error(format!(
            "ns('{text}'): give a number and a unit, {units}, such as '5ms'"
        ))
    };
    let plain = text.trim();
    let (sign, digits) = match plain.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, plain),
    };
    let unit = digits.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let (number, unit) = digits.split_at(unit.ok_or_else(wrong)?);
    let nanos: i128 = match unit.trim() {
        "ns" => 1,
        "us" | "\u{b5}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return Err(wrong()),
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let all: i128 = [whole, part].concat().parse().map_err(|_| wrong())?;
    let scale = u32::try_from(part.len()).ok();
    let scale = scale
        .and_then(|digits| 10_i128.checked_pow(digits))
        .ok_or_else(wrong)?;
    let product = all.checked_mul(nanos).ok_or_else(wrong)?;
    if product % scale != 0 {
        return Err(error(format!(
            "ns('{text}') is no whole number of nanoseconds"
        )));
    }
    i64::try_from(sign * product / scale).map_err(|_| wrong())
}

/// `p_value(z)`: how likely it is that a normally distributed value is as far from its mean as `z`
/// standard deviations, or further, to either side.
fn p_value() -> ScalarUDF {
    let run = |values: &[ColumnarValue]| {
        let value = values
            .first()
            .ok_or_else(|| error("p_value(z) takes a number".to_owned()))?;
        let numbers = value.to_array(rows(values))?;
        let numbers = numbers
            .as_any()
            .downcast_ref::<Float64Array>()
            .ok_or_else(|| error("p_value(z) takes a number".to_owned()))?;
        let shares: Float64Array = numbers
            .iter()
            .map(|z| Some(libm::erfc(z?.abs() / std::f64::consts::SQRT_2)))
            .collect();
        given(values, shares)
    };
    create_udf(
        "p_value",
        vec![DataType::Float64],
        DataType::Float64,
        Volatility::Immutable,
        Arc::new(run),
    )
}

/// `overlap(begin, end, begin, end)`: for how long two spans of time overlap, in their unit.
fn overlap() -> ScalarUDF {
    let run = |values: &[ColumnarValue]| {
        let rows = rows(values);
        let numbers = values.iter().map(|value| {
            let array = value.to_array(rows)?;
            let array = datafusion::arrow::compute::cast(&array, &DataType::Int64)?;
            let numbers = array.as_any().downcast_ref::<Int64Array>().cloned();
            numbers.ok_or_else(|| error("a number was expected".to_owned()))
        });
        let numbers = numbers.collect::<Result<Vec<_>>>()?;
        let [begin, end, other_begin, other_end] = numbers.as_slice() else {
            return Err(error(
                "overlap(begin, end, begin, end) takes four numbers".to_owned(),
            ));
        };
        let ones = begin.iter().zip(end).zip(other_begin.iter().zip(other_end));
        let overlaps = ones.map(|((begin, end), (other_begin, other_end))| {
            let (from, to) = (begin?.max(other_begin?), end?.min(other_end?));
            Some(to.saturating_sub(from).max(0))
        });
        let overlaps: Int64Array = overlaps.collect();
        given(values, overlaps)
    };
    create_udf(
        "overlap",
        vec![DataType::Int64; 4],
        DataType::Int64,
        Volatility::Immutable,
        Arc::new(run),
    )
}

/// `glob(text, 'ui*')`: whether a text fits a pattern, in which `*` is any text and `?` any letter.
fn glob() -> ScalarUDF {
    let run = |values: &[ColumnarValue]| {
        let [text, pattern] = values else {
            return Err(error("glob(text, pattern) takes two texts".to_owned()));
        };
        let rows = rows(values);
        let (text, pattern) = (texts(text, rows)?, texts(pattern, rows)?);
        let fits = text.iter().zip(pattern.iter());
        let fits: BooleanArray = fits
            .map(|(text, pattern)| Some(fits_glob(text?, pattern?)))
            .collect();
        given(values, fits)
    };
    create_udf(
        "glob",
        vec![DataType::Utf8, DataType::Utf8],
        DataType::Boolean,
        Volatility::Immutable,
        Arc::new(run),
    )
}

fn fits_glob(text: &str, pattern: &str) -> bool {
    let (text, pattern): (Vec<char>, Vec<char>) =
        (text.chars().collect(), pattern.chars().collect());
    let (mut at, mut of) = (0, 0);
    // Where the last star is, and how far its text goes.
    let mut star: Option<(usize, usize)> = None;
    while let Some(letter) = text.get(at) {
        match pattern.get(of) {
            Some('*') => {
                star = Some((of, at));
                of += 1;
            }
            Some(wanted) if *wanted == '?' || wanted == letter => (at, of) = (at + 1, of + 1),
            _ => match &mut star {
                Some((place, end)) => {
                    *end += 1;
                    (at, of) = (*end, *place + 1);
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(of).all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_exact() {
        let good = [
            ("5ms", 5_000_000),
            ("1.5us", 1_500),
            ("-2s", -2_000_000_000),
            ("0ns", 0),
            (" 1 min ", 60_000_000_000),
            ("2h", 7_200_000_000_000),
            ("9223372036854775807ns", i64::MAX),
        ];
        for (text, wanted) in good {
            assert_eq!(nanos(text).unwrap(), wanted, "{text}");
        }
        for text in [
            "",
            "5",
            "ms",
            "1.5ns",
            "5 parsecs",
            "1e3s",
            "--5s",
            "9223372036854775808ns",
            "1..5s",
        ] {
            assert!(nanos(text).is_err(), "{text}");
        }
    }

    #[test]
    fn patterns_have_stars_and_question_marks() {
        for (text, pattern) in [
            ("ui-main", "ui*"),
            ("", "*"),
            ("abcbc", "a*bc"),
            ("x", "?"),
            ("a*", "a*"),
        ] {
            assert!(fits_glob(text, pattern), "{text} {pattern}");
        }
        for (text, pattern) in [("xui", "ui*"), ("", "?"), ("abcb", "a*bc"), ("ab", "a")] {
            assert!(!fits_glob(text, pattern), "{text} {pattern}");
        }
    }
}
