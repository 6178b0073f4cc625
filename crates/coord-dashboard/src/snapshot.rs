//! What is shown at one moment, and how a page that knows an earlier moment is told only what differs.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::Arc;

use coord_wire::inspect::Inspect;
use serde::Serialize;

use crate::source::Source;
use crate::view::{RequestView, RowView, SessionView};

/// Moments that are kept, for pages that come back.
const KEPT: usize = 32;

/// The rows of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct GroupView {
    head: &'static str,
    needs_you: bool,
    rows: Vec<String>,
}

/// All that is shown but the session that a page has open.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshot {
    /// What names the moment to a page.
    pub(crate) id: u64,
    pub(crate) answer: Arc<Inspect>,
    /// That the coordinator is lost, in words.
    lost: Option<String>,
    title: String,
    summary: String,
    /// What follows the first part of the summary.
    others: String,
    nothing: String,
    more: String,
    groups: Vec<GroupView>,
    rows: BTreeMap<String, RowView>,
    /// Sessions that need a person, by their rows: what is said when one is new.
    needs: BTreeMap<String, String>,
    requests: Vec<RequestView>,
    why_no_requests: String,
}

/// What was looked at, before it is arranged for a moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    pub(crate) answer: Arc<Inspect>,
    pub(crate) requests: Vec<RequestView>,
    pub(crate) why_no_requests: String,
    /// Since when no coordinator answers, as the clock shows it.
    pub(crate) lost_at: Option<String>,
}

impl Snapshot {
    /// Arranges what is known for this moment.
    pub(crate) fn of(known: &Known, id: u64, source: &dyn Source) -> Self {
        let answer = Arc::clone(&known.answer);
        let list = source.list(&answer, source.now_ms());
        let mut groups: Vec<GroupView> = Vec::new();
        let (mut rows, mut needs) = (BTreeMap::new(), BTreeMap::new());
        for row in &list.rows {
            let view = RowView::of(row, &source.directory(&answer, &row.id));
            let head = row.group.head();
            match groups.last_mut().filter(|group| group.head == head) {
                Some(group) => group.rows.push(row.id.clone()),
                None => groups.push(GroupView {
                    head,
                    needs_you: row.needs_you(),
                    rows: vec![row.id.clone()],
                }),
            }
            if row.needs_you() {
                needs.insert(row.id.clone(), view.said());
            }
            rows.insert(row.id.clone(), view);
        }
        let words =
            |at| format!("Connection lost at {at}. Shown is what was known then. Retrying.");
        let more = match list.more {
            0 => String::new(),
            n => format!("{n} more → coord inspect --all"),
        };
        let title =
            if needs.is_empty() { "coord".to_owned() } else { format!("({}) coord", needs.len()) };
        let whole = if list.is_empty() { String::new() } else { list.summary("·") };
        let (summary, others) = match whole.split_once(" · ") {
            Some((first, others)) => (first.to_owned(), format!(" · {others}")),
            None => (whole, String::new()),
        };
        Self {
            id,
            lost: known.lost_at.as_ref().map(words),
            title,
            summary,
            others,
            nothing: if list.is_empty() { source.nothing() } else { String::new() },
            more,
            groups,
            rows,
            needs,
            requests: known.requests.clone(),
            why_no_requests: known.why_no_requests.clone(),
            answer,
        }
    }

    /// What a page has to be told that knows `before`, and that has this session open.
    pub(crate) fn since<'a>(
        &'a self,
        before: Option<&Self>,
        session: Open<'a>,
        epoch: &str,
    ) -> Update<'a> {
        let is_new =
            |id: &&String| before.is_none_or(|old| old.rows.get(*id) != self.rows.get(*id));
        let say = |(id, words): (&String, &'a String)| {
            let old = before?;
            (!old.needs.contains_key(id)).then_some(words.as_str())
        };
        Update {
            id: format!("{epoch}-{}", self.id),
            is_whole: before.is_none(),
            lost: self.lost.as_deref().unwrap_or_default(),
            title: &self.title,
            summary: [&self.summary, &self.others],
            nothing: &self.nothing,
            more: &self.more,
            groups: before.is_none_or(|old| old.groups != self.groups).then_some(&self.groups),
            rows: self.rows.iter().filter(|(id, _)| is_new(id)).collect(),
            say: self.needs.iter().filter_map(say).collect(),
            requests: before
                .is_none_or(|old| {
                    old.requests != self.requests || old.why_no_requests != self.why_no_requests
                })
                .then_some(Requests { open: &self.requests, why_none: &self.why_no_requests }),
            session,
        }
    }
}

/// The session that a page has open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "is", content = "view")]
pub(crate) enum Open<'a> {
    /// As the page knows it.
    Same,
    /// It is not there any more, or none is open.
    None,
    /// As it is now.
    Changed(&'a SessionView),
}

#[derive(Debug, Serialize)]
struct Requests<'a> {
    open: &'a [RequestView],
    why_none: &'a str,
}

/// What a page is told. Parts that did not change are left out.
#[derive(Debug, Serialize)]
pub(crate) struct Update<'a> {
    id: String,
    /// Whether this is all there is, and not what differs.
    is_whole: bool,
    lost: &'a str,
    title: &'a str,
    /// The needs, and the rest, for which a phone has no room.
    summary: [&'a str; 2],
    nothing: &'a str,
    more: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<&'a Vec<GroupView>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    rows: BTreeMap<&'a String, &'a RowView>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    say: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<Requests<'a>>,
    session: Open<'a>,
}

/// The moments that pages may know.
#[derive(Debug, Default)]
pub(crate) struct Ring(VecDeque<Arc<Snapshot>>);

impl Ring {
    pub(crate) fn push(&mut self, snapshot: Arc<Snapshot>) {
        self.0.push_back(snapshot);
        if KEPT < self.0.len() {
            self.0.pop_front();
        }
    }

    pub(crate) fn get(&self, id: u64) -> Option<Arc<Snapshot>> {
        self.0.iter().find(|one| one.id == id).cloned()
    }
}
