//! How deep the expressions of a query are nested.
//!
//! The engine names each expression by all that is in it, several times over while it plans: its
//! time grows with the square of the depth, and so 5,000 terms of a sum would take it minutes.

use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{Expr, Query, Visit, Visitor};

use crate::Error;

/// The deepest expression, in operators: more than people write.
const DEEPEST: usize = 500;

/// Counts the expressions and queries that are open.
#[derive(Default)]
struct Depth(usize);

impl Depth {
    fn deeper(&mut self) -> ControlFlow<()> {
        self.0 += 1;
        match self.0 > DEEPEST {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn back(&mut self) -> ControlFlow<()> {
        self.0 -= 1;
        ControlFlow::Continue(())
    }
}

impl Visitor for Depth {
    type Break = ();

    fn pre_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.deeper()
    }

    fn post_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.back()
    }

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.deeper()
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.back()
    }
}

/// Refuses a statement with an expression that would take too long to plan.
pub(crate) fn check(statement: &Statement) -> Result<(), Error> {
    match statement {
        Statement::Statement(statement) => check_in(statement),
        Statement::Explain(explain) => check(&explain.statement),
        // It is refused only once its query is planned.
        Statement::CopyTo(copy) => match &copy.source {
            CopyToSource::Query(query) => check_in(query),
            CopyToSource::Relation(_) => Ok(()),
        },
        // The others are refused, and soon, or have no expressions.
        _ => Ok(()),
    }
}

fn check_in(part: &impl Visit) -> Result<(), Error> {
    match part.visit(&mut Depth::default()) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::Query(format!(
            "an expression is nested more than {DEEPEST} deep; split the query, or write a list \
             as `in (..)`"
        ))),
    }
}
