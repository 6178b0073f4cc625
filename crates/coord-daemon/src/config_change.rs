//! Puts a changed configuration into force (U-06). The change is recorded first, with the old and new
//! values, so that a replay agrees. The core's settings change with that record.

use coord_config::{Config, ConfigError};
use coord_model::{Event, Mode, Now};

use crate::conditions::Condition;
use crate::coordinator::Coordinator;
use crate::world::World;

impl<W: World> Coordinator<W> {
    /// Handles a read of the configuration file. An invalid file changes nothing, and is shown to people
    /// until it is valid again.
    pub fn on_config(&mut self, loaded: Result<Config, ConfigError>, now: Now) {
        let file = self.paths.config_file().display().to_string();
        let new = match loaded {
            Ok(new) => new,
            Err(error) => {
                let text = format!(
                    "{file}: {error}; the values read before stay in force; fix the file (`coord config check` tells whether it is right)"
                );
                tracing::warn!("{text}");
                self.config_waits = None;
                return self.conditions.raise(Condition::Config, text);
            }
        };
        let changes = self.config.changes_to(&new);
        let settings = Box::new(new.settings());
        // The mode changes first, so that the effects of the new settings are admitted under it.
        let old = std::mem::replace(&mut self.config, new);
        let entry = Event::ConfigChanged { settings, changes: changes.clone() };
        if !changes.is_empty() && !self.record_or_say(&entry, now) {
            self.config_waits = Some(std::mem::replace(&mut self.config, old));
            let text = format!(
                "{file} was changed and that cannot be recorded: the values read before stay in force until it can"
            );
            return self.conditions.raise(Condition::Config, text);
        }
        self.config_waits = None;
        self.conditions.clear(Condition::Config);
        if changes.is_empty() {
            return;
        }
        if old.mode() != Mode::Observe && self.mode() == Mode::Observe {
            self.discard_actions("recovery.mode changed", now);
        }
        if old.fleet != self.config.fleet {
            // It reads the configuration when it starts.
            self.world.keep_relay(false);
            self.keep_relay();
        }
        self.shares.set_tools_per_minute(self.config.store.tool_events_per_minute.0);
        self.config_changed =
            Some((now.wall_ms, changes.iter().map(ToString::to_string).collect()));
        self.show_restart();
    }

    /// Tries again to record a change that could not be recorded.
    pub(crate) fn retry_config(&mut self, now: Now) {
        if let Some(config) = self.config_waits.take() {
            self.on_config(Ok(config), now);
        }
    }

    /// Runs the relay if the configuration names a server (F-10).
    pub(crate) fn keep_relay(&mut self) {
        let is_wanted = self.config.fleet.url.0.is_some();
        self.world.keep_relay(is_wanted);
    }

    /// Shows people the keys whose new values need a restart.
    fn show_restart(&mut self) {
        let since_start = self.config_at_start.changes_to(&self.config);
        let waiting = since_start.into_iter().filter(|one| one.needs_restart);
        let waiting: Vec<String> = waiting.map(|one| one.key).collect();
        if waiting.is_empty() {
            return self.conditions.clear(Condition::ConfigRestart);
        }
        let text = format!(
            "these configuration changes need a restart of the coordinator: {}; run `coord down`, then `coord up`",
            waiting.join(", ")
        );
        self.conditions.raise(Condition::ConfigRestart, text);
    }
}
