//! The callers of one group that wait for an answer, and how each gets its answer.

use std::collections::BTreeMap;

use raft::eraftpb::{Entry, EntryType};

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A majority has it on disk: it is in the log for ever, at this index.
    Committed { index: u64, term: u64 },
    /// It is surely not in the log, and never will be; of several entries, the last. `leader` is 0 if it
    /// is not known.
    NotLeader { leader: u64 },
    /// It may be in the log, now or later: what is applied at this index tells.
    Unknown { index: u64, term: u64 },
    /// Everything that was acknowledged before the call is applied here.
    Read { index: u64 },
    /// The transfer or the change of members is done.
    Done,
    /// There was no answer by the deadline. Nothing was changed by a read, a transfer may still happen.
    TimedOut,
    /// The call was wrong, and did nothing. The text says what to do.
    Refused(String),
}

struct Proposal {
    token: u64,
    index: u64,
    term: u64,
    deadline: u64,
    changes_members: bool,
}

struct Barrier {
    token: u64,
    deadline: u64,
    asked: Vec<u8>, // names the newest question to the leader
    asked_at: u64,
    index: Option<u64>,
}

struct Transfer {
    token: u64,
    to: u64,
    deadline: u64,
}

/// Owned by a group of the driver, and used by its thread alone. Times are ticks. A call that gives
/// answers appends them to `answers`, each with the token of its caller.
#[derive(Default)]
pub struct Waiting {
    proposals: BTreeMap<(u64, u64), Proposal>, // by index and term
    barriers: Vec<Barrier>,
    transfers: Vec<Transfer>,
    leaving: Vec<(u64, u64)>, // token and deadline of changes whose old members have still to go
    pub answers: Vec<(u64, Answer)>,
}

impl Waiting {
    pub fn answer(&mut self, token: u64, answer: Answer) {
        self.answers.push((token, answer));
    }

    pub fn propose(&mut self, token: u64, (index, term): (u64, u64), deadline: u64, changes_members: bool) {
        let proposal = Proposal { token, index, term, deadline, changes_members };
        self.proposals.insert((index, term), proposal);
    }

    /// Answers the proposals up to a committed entry. What was replaced in the log of this replica waits
    /// until then, too: another replica may still have it, lead, and commit it. `is_joint`: old members
    /// have still to go.
    pub fn committed(&mut self, entry: &Entry, is_joint: bool) {
        while let Some(proposal) = self.first_up_to(entry.index) {
            let is_ours = proposal.index == entry.index && proposal.term == entry.term;
            if is_ours && proposal.changes_members {
                self.changed(&proposal, entry, is_joint);
            } else if is_ours {
                let (index, term) = (entry.index, entry.term);
                self.answer(proposal.token, Answer::Committed { index, term });
            } else {
                self.answer(proposal.token, Answer::NotLeader { leader: 0 });
            }
        }
    }

    fn first_up_to(&mut self, index: u64) -> Option<Proposal> {
        let first = self.proposals.first_entry().filter(|first| first.key().0 <= index)?;
        Some(first.remove())
    }

    fn changed(&mut self, proposal: &Proposal, entry: &Entry, is_joint: bool) {
        if entry.get_entry_type() == EntryType::EntryNormal {
            let text = "the members were not changed: another change is under way. Try again when it is done";
            self.answer(proposal.token, Answer::Refused(text.to_owned()));
        } else if is_joint {
            self.leaving.push((proposal.token, proposal.deadline));
        } else {
            self.answer(proposal.token, Answer::Done);
        }
    }

    /// Old members have gone.
    pub fn left_joint(&mut self) {
        for (token, _) in std::mem::take(&mut self.leaving) {
            self.answer(token, Answer::Done);
        }
    }

    /// A snapshot replaced the log up to an index, so what was proposed there is not found out.
    pub fn skipped(&mut self, snapshot: u64) {
        while let Some(p) = self.first_up_to(snapshot) {
            self.answer(p.token, Answer::Unknown { index: p.index, term: p.term });
        }
    }

    pub fn barrier(&mut self, token: u64, deadline: u64, asked: Vec<u8>, now: u64) {
        self.barriers.push(Barrier { token, deadline, asked, asked_at: now, index: None });
    }

    /// The leader answered a question: everything up to `index` has to be applied.
    pub fn read_state(&mut self, asked: &[u8], index: u64, applied: u64) {
        for barrier in self.barriers.iter_mut().filter(|b| b.asked == asked) {
            barrier.index = Some(index);
        }
        self.applied(applied);
    }

    pub fn applied(&mut self, applied: u64) {
        let answers = &mut self.answers;
        self.barriers.retain(|barrier| match barrier.index {
            Some(index) if index <= applied => {
                answers.push((barrier.token, Answer::Read { index }));
                false
            }
            _ => true,
        });
    }

    /// Returns the questions that got no answer in `patience` ticks; `next` gives them new names.
    pub fn ask_again(&mut self, now: u64, patience: u64, mut next: impl FnMut() -> Vec<u8>) -> Vec<Vec<u8>> {
        let mut questions = Vec::new();
        for barrier in &mut self.barriers {
            if barrier.index.is_none() && now >= barrier.asked_at + patience {
                (barrier.asked, barrier.asked_at) = (next(), now);
                questions.push(barrier.asked.clone());
            }
        }
        questions
    }

    pub fn transfer(&mut self, token: u64, to: u64, deadline: u64) {
        self.transfers.push(Transfer { token, to, deadline });
    }

    pub fn leader_is(&mut self, leader: u64) {
        let answers = &mut self.answers;
        self.transfers.retain(|transfer| {
            if transfer.to == leader {
                answers.push((transfer.token, Answer::Done));
            }
            transfer.to != leader
        });
    }

    /// Gives up on what has waited until its deadline.
    pub fn expire(&mut self, now: u64) {
        let answers = &mut self.answers;
        self.proposals.retain(|_, p| {
            if p.deadline <= now {
                answers.push((p.token, Answer::Unknown { index: p.index, term: p.term }));
            }
            p.deadline > now
        });
        let mut give_up = |token: u64, deadline: u64| {
            if deadline <= now {
                answers.push((token, Answer::TimedOut));
            }
            deadline > now
        };
        self.barriers.retain(|b| give_up(b.token, b.deadline));
        self.transfers.retain(|t| give_up(t.token, t.deadline));
        self.leaving.retain(|(token, deadline)| give_up(*token, *deadline));
    }
}
