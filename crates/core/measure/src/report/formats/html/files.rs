//! Links to the files beside a page, and the plan of a single run.

use maud::{Markup, html};

use crate::report::comparison::{Comparison, numbered};
use crate::report::svg;

/// A file beside a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct File {
    /// Name of the link, such as `result.json`.
    pub name: String,
    /// Path relative to the page.
    pub path: String,
}

/// The files that a page links to. All of them exist.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files {
    /// Files of the suite, or of the only run.
    pub own: Vec<File>,
    /// Files of each run of a suite, in the order of its results; empty for a single run.
    pub runs: Vec<Vec<File>>,
    /// End of the page's path, such as `/quick/report.html`. A copy elsewhere has no files beside it, and shows their
    /// names without links; empty if the page is never apart from them.
    pub page_path: String,
}

impl Files {
    pub(super) fn links(&self) -> Markup {
        html! { @if !self.own.is_empty() { span.links { (links(&self.own)) } } }
    }

    /// Renders the plan of a single run, or the files of each run of a suite.
    pub(super) fn section(&self, comparison: &Comparison<'_>) -> Markup {
        let plan = comparison.only_run().map(|run| &run.plan);
        let plan = plan.filter(|plan| plan.as_object().is_some_and(|fields| !fields.is_empty()));
        let plan = plan.and_then(|plan| serde_json::to_string_pretty(plan).ok());
        html! {
            @if let Some(plan) = plan {
                section id="plan" aria-labelledby="plan-h" {
                    details.fold { summary { h2 #plan-h { "Plan" } } pre tabindex="0" { (plan) } }
                }
            }
            @if self.runs.iter().any(|files| !files.is_empty()) {
                section id="files" aria-labelledby="files-h" {
                    details.fold { summary { h2 #files-h { "Files of each run" } } (self.table(comparison)) }
                }
            }
        }
    }

    fn table(&self, comparison: &Comparison<'_>) -> Markup {
        let all = comparison.all();
        let results = &comparison.suite.results;
        let rows = numbered(&all).filter_map(|(repeated, index, run)| {
            let place = results
                .iter()
                .position(|result| std::ptr::eq(result, run))?;
            Some((repeated, index, run, self.runs.get(place)?))
        });
        html! {
            div.table { div.scroll tabindex="0" role="region" aria-label="Files of each run" { table {
                thead { tr { th.w scope="col" { "daemon" } th scope="col" { "level" } th scope="col" { "run" } th.w scope="col" { "verdict" } th.w scope="col" { "files" } } }
                tbody {
                    @for (repeated, index, run, files) in rows {
                        tr class=(svg::swatch(repeated.daemon)) {
                            th scope="row" { (comparison.daemon(repeated.daemon)) }
                            td { (repeated.level_name()) }
                            td { (index + 1) }
                            td.w { (run.verdict) }
                            td.w { (links(files)) }
                        }
                    }
                }
            } } }
        }
    }
}

fn links(files: &[File]) -> Markup {
    html! {
        @for file in files { a.file href=(file.path) { (file.name) } " " }
    }
}
