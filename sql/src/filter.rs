//! Conditions that are checked while a trace is read, before any row is made.
//!
//! - A condition on the name, the trace, the stream or the CPU alone, whatever it is, is evaluated
//!   once for each value that these have.
//! - Comparisons of `ns` or `time` with constants are a range of time, of which only packets are
//!   read.
//!
//! All others the engine checks on the rows.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::catalog::Session;
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue, TableReference};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, TableProviderFilterPushDown};
use datafusion::physical_plan::PhysicalExpr;

use crate::column::Holds;

/// Columns of which a condition is evaluated once for each value.
pub(crate) const FEW: [(&str, Holds); 8] = [
    ("name", Holds::Word),
    ("trace", Holds::Word),
    ("stream", Holds::Word),
    ("cpu", Holds::Signed),
    // Of stores.
    ("date", Holds::Word),
    ("host", Holds::Word),
    ("boot", Holds::Word),
    ("build", Holds::Word),
];

/// The conditions of a query on a table.
#[derive(Debug, Default, Clone)]
pub(crate) struct Filters {
    pub(crate) range: Range,
    /// By the column.
    few: HashMap<&'static str, Vec<Arc<dyn PhysicalExpr>>>,
}

/// A range of times in nanoseconds, both ends included.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) from: Option<i64>,
    pub(crate) to: Option<i64>,
    /// No time is in it.
    pub(crate) is_empty: bool,
}

impl Range {
    /// Whether a time is in the range. What has no time is in no range but the one without ends.
    #[inline]
    pub(crate) fn holds(&self, time: Option<i64>) -> bool {
        match time {
            Some(time) => {
                self.from.is_none_or(|from| time >= from) && self.to.is_none_or(|to| time <= to)
            }
            None => self.from.is_none() && self.to.is_none(),
        }
    }

    fn narrow(&mut self, other: Range) {
        self.from = self.from.max(other.from);
        self.to = match (self.to, other.to) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        self.is_empty |= other.is_empty;
    }
}

enum Kind {
    Range(Range),
    Few(&'static str),
}

/// How a table that has these of the [`FEW`] columns checks a condition; `None` if it does not.
fn kind(filter: &Expr, has: &dyn Fn(&str) -> bool) -> Option<Kind> {
    if let Some(range) = range(filter)
        && has("ns")
    {
        return Some(Kind::Range(range));
    }
    let columns = filter.column_refs();
    let mut names = columns.iter().map(|column| column.name.as_str());
    let name = names.next()?;
    let (few, _) = FEW.iter().find(|(few, _)| *few == name && has(few))?;
    let is_alone = names.all(|other| other == name);
    (is_alone && !filter.is_volatile() && !has_subquery(filter)).then_some(Kind::Few(few))
}

fn has_subquery(filter: &Expr) -> bool {
    use datafusion::common::tree_node::TreeNode as _;
    let is = |expr: &Expr| {
        Ok(matches!(
            expr,
            Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::ScalarSubquery(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::Placeholder(_)
        ))
    };
    filter.exists(is).unwrap_or(true)
}

/// Which conditions are checked here, exactly; the engine checks the others.
pub(crate) fn pushed_down(
    filters: &[&Expr],
    has: &dyn Fn(&str) -> bool,
) -> Vec<TableProviderFilterPushDown> {
    let each = filters.iter().map(|filter| match kind(filter, has) {
        Some(_) => TableProviderFilterPushDown::Exact,
        None => TableProviderFilterPushDown::Unsupported,
    });
    each.collect()
}

/// A comparison of the time with a constant.
fn range(filter: &Expr) -> Option<Range> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = filter else {
        return None;
    };
    let (column, op, value) = match (&**left, &**right) {
        (Expr::Column(column), Expr::Literal(value, _)) => (column, *op, value),
        (Expr::Literal(value, _), Expr::Column(column)) => (column, op.swap()?, value),
        _ => return None,
    };
    let value = match (column.name.as_str(), value) {
        ("ns", ScalarValue::Int64(Some(value))) => *value,
        ("time", ScalarValue::TimestampNanosecond(Some(value), None)) => *value,
        _ => return None,
    };
    let unbounded = Range::default();
    let none = Range {
        from: Some(1),
        to: Some(0),
        is_empty: true,
    };
    Some(match op {
        Operator::Eq => Range {
            from: Some(value),
            to: Some(value),
            ..unbounded
        },
        Operator::GtEq => Range {
            from: Some(value),
            ..unbounded
        },
        Operator::LtEq => Range {
            to: Some(value),
            ..unbounded
        },
        Operator::Gt => value.checked_add(1).map_or(none, |from| Range {
            from: Some(from),
            ..unbounded
        }),
        Operator::Lt => value.checked_sub(1).map_or(none, |to| Range {
            to: Some(to),
            ..unbounded
        }),
        _ => return None,
    })
}

impl Filters {
    /// The filters of a query on a table that has these columns.
    pub(crate) fn new(
        session: &dyn Session,
        filters: &[Expr],
        has: &dyn Fn(&str) -> bool,
    ) -> Result<Filters> {
        let mut all = Filters::default();
        for filter in filters {
            match kind(filter, has) {
                Some(Kind::Range(range)) => all.range.narrow(range),
                Some(Kind::Few(column)) => {
                    let schema = schema(column);
                    let schema = DFSchema::try_from(schema)?;
                    let plain = unqualified(filter.clone())?;
                    let filter = session.create_physical_expr(plain, &schema)?;
                    all.few.entry(column).or_default().push(filter);
                }
                None => {}
            }
        }
        Ok(all)
    }

    /// Whether each of these values of a column fulfils the conditions on that column.
    pub(crate) fn passes(&self, column: &'static str, values: &ArrayRef) -> Result<Vec<bool>> {
        let mut passes = vec![true; values.len()];
        let Some(filters) = self.few.get(column) else {
            return Ok(passes);
        };
        let batch = RecordBatch::try_new(schema(column), vec![Arc::clone(values)])?;
        for filter in filters {
            let result = filter.evaluate(&batch)?.into_array(values.len())?;
            let result = result.as_any().downcast_ref::<BooleanArray>();
            let result = result.ok_or_else(|| {
                DataFusionError::Internal("a condition is no truth value".to_owned())
            })?;
            for (pass, holds) in passes.iter_mut().zip(result) {
                *pass &= holds == Some(true);
            }
        }
        Ok(passes)
    }

    /// Whether there are conditions on this column.
    pub(crate) fn has(&self, column: &str) -> bool {
        self.few.contains_key(column)
    }
}

fn schema(column: &str) -> Arc<Schema> {
    let of = FEW.iter().find(|(name, _)| *name == column);
    let holds = of.map_or(Holds::Text, |(_, holds)| *holds);
    Arc::new(Schema::new(vec![Field::new(
        column,
        holds.data_type(),
        true,
    )]))
}

/// The expression with its columns' names alone: there is one table.
fn unqualified(filter: Expr) -> Result<Expr> {
    use datafusion::common::tree_node::{Transformed, TreeNode as _};
    let plain = filter.transform(|expr| {
        Ok(match expr {
            Expr::Column(column) if column.relation.is_some() => {
                let none: Option<TableReference> = None;
                let plain = datafusion::common::Column::new(none, column.name);
                Transformed::yes(Expr::Column(plain))
            }
            other => Transformed::no(other),
        })
    })?;
    Ok(plain.data)
}
