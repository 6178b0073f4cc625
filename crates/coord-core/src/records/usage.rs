//! What a session uses and its account has left, as their status lines said.

use alloc::collections::BTreeMap;
use alloc::string::String;
use serde::{Deserialize, Serialize};

use coord_model::{Decimal, Moment, Usage, UsageLimit};

use super::clocks::clocks;
use super::protected::Protected;

/// A limit of which at least so much is used keeps its sessions from working, in percent.
const USED_UP: Decimal = Decimal(100 * Decimal::ONE);
/// Maximum number of accounts. A user has a handful.
const ACCOUNTS_MAX: usize = 64;

/// The newest numbers of a session's status line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaidUsage {
    /// The numbers.
    pub numbers: Usage,
    /// When they came.
    pub said: Moment,
}

/// A usage limit, as a status line last said it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaidLimit {
    /// The limit.
    pub limit: UsageLimit,
    /// When the status line said it.
    pub said: Moment,
}

impl SaidLimit {
    /// Whether it has reset since.
    pub fn is_over(&self, now_wall_ms: u64) -> bool {
        self.limit.resets_ms <= now_wall_ms
    }
}

/// The usage limits of an account. Sessions with the same configuration directory use one account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Account {
    /// The 5-hour limit.
    pub five_hour: Option<SaidLimit>,
    /// The 7-day limit.
    pub seven_day: Option<SaidLimit>,
}

impl Protected<Option<SaidUsage>> {
    /// A status line came.
    pub(crate) fn say(&mut self, numbers: Usage, said: Moment) {
        self.0 = Some(SaidUsage { numbers, said });
    }
}

impl Protected<BTreeMap<String, Account>> {
    /// A status line of a session in this configuration directory came. A limit that it does not name stays.
    pub(crate) fn say(&mut self, config_dir: &str, numbers: &Usage, said: Moment) {
        let said = |limit| SaidLimit { limit, said };
        let (five, seven) = (numbers.five_hour().map(said), numbers.seven_day().map(said));
        let is_known = self.0.contains_key(config_dir);
        if (five.is_none() && seven.is_none()) || (!is_known && ACCOUNTS_MAX <= self.0.len()) {
            return;
        }
        let account = self.0.entry(config_dir.into()).or_default();
        account.five_hour = five.or(account.five_hour);
        account.seven_day = seven.or(account.seven_day);
    }

    /// When the limit resets that keeps an account from working, in milliseconds since 1970; none if no status line
    /// says so.
    pub(crate) fn used_up_until(&self, config_dir: &str, at: Moment) -> Option<u64> {
        let Account { five_hour, seven_day } = self.0.get(config_dir)?;
        let limits = [five_hour, seven_day].into_iter().flatten();
        let used_up = limits
            .filter(|said| USED_UP <= said.limit.percent && !said.is_over(at.wall_ms))
            .map(|said| said.limit.resets_ms);
        used_up.max()
    }
}

clocks!(struct SaidUsage { numbers, said } until {});

clocks!(struct SaidLimit { limit, said } until {});

clocks!(struct Account { five_hour, seven_day } until {});

clocks!(none in Usage, UsageLimit);
