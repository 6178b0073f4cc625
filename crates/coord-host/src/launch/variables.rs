//! Decides which environment variables choose the client's account, endpoint, configuration or network route,
//! and which ones mark a session (H-18, S0-25a). Only names are kept, never a value.

/// Prefixes of such names, derived from the names that client 2.1.328 reads.
const PREFIXES: [&str; 11] = [
    "ANTHROPIC_",
    "AWS_",
    "AZURE_",
    "CLAUDE_CODE_API_",
    "CLAUDE_CODE_CLIENT_",
    "CLAUDE_CODE_OAUTH_",
    "CLAUDE_CODE_SKIP_",
    "CLAUDE_CODE_USE_",
    "CLAUDE_LOCAL_OAUTH_",
    "GOOGLE_",
    "VERTEX_",
];

/// Full names. Those of proxies are compared without regard to case.
const NAMES: [&str; 18] = [
    "CLAUDE_API_KEY",
    "CLAUDE_CODE_ACCOUNT_UUID",
    "CLAUDE_CODE_CERT_STORE",
    "CLAUDE_CODE_CUSTOM_OAUTH_URL",
    "CLAUDE_CODE_ORGANIZATION_UUID",
    "CLAUDE_CODE_USER_EMAIL",
    "CLAUDE_CODE_WEBSOCKET_AUTH_FILE_DESCRIPTOR",
    CONFIG_DIR,
    "CLAUDE_SECURESTORAGE_CONFIG_DIR",
    "CLAUDE_TRUSTED_DEVICE_TOKEN",
    "CLOUD_ML_REGION",
    "GCLOUD_PROJECT",
    "NODE_EXTRA_CA_CERTS",
    "NODE_TLS_REJECT_UNAUTHORIZED",
    "NODE_USE_ENV_PROXY",
    "NODE_USE_SYSTEM_CA",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
];
const PROXIES: [&str; 4] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];

/// The variable that names the configuration directory.
pub const CONFIG_DIR: &str = "CLAUDE_CONFIG_DIR";

/// Variables that the client sets for its children. A session that inherits them considers itself a part of
/// another session, and keeps no transcript (S0-25a, F32).
pub const MARKS: [&str; 13] = [
    "CLAUDECODE",
    "CLAUDE_PID",
    "CLAUDE_ENV_FILE",
    "CLAUDE_PROJECT_DIR",
    "CLAUDE_EFFORT",
    "AI_AGENT",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_CHILD_NOTES_DIR",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_SESSION_ATTENDED",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_MESSAGING_SOCKET",
    "CLAUDE_CODE_MESSAGING_TOKEN",
];

/// Most such variables that are kept; nobody sets more.
const NAMES_MAX: usize = 64;
/// Longest name that is kept, in bytes.
const NAME_BYTES_MAX: usize = 128;

/// Whether a variable of this name chooses the account, endpoint, configuration or network route.
pub fn chooses(name: &str) -> bool {
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || NAMES.contains(&name)
        || PROXIES.iter().any(|proxy| name.eq_ignore_ascii_case(proxy))
}

/// The names of such variables in an environment (in the format of `/proc/PID/environ`), sorted. An empty
/// variable counts as not set.
pub(super) fn names(environ: &[u8]) -> Result<Vec<String>, String> {
    let mut names: Vec<String> = Vec::new();
    for entry in environ.split(|byte| *byte == 0) {
        let Some(at) = entry.iter().position(|byte| *byte == b'=') else { continue };
        let (name, value) = entry.split_at(at);
        let Ok(name) = std::str::from_utf8(name) else { continue };
        if chooses(name) && 1 < value.len() {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    names.dedup();
    if NAMES_MAX < names.len() || names.iter().any(|name| NAME_BYTES_MAX < name.len()) {
        return Err("its environment chooses the account in too many ways".to_owned());
    }
    Ok(names)
}

/// The configuration directory that an environment gives: the value of the variable, or else the default
/// directory. An empty variable counts as not set.
pub(super) fn config_dir(environ: &[u8]) -> Option<String> {
    let value = |name: &str| {
        let is_it = |entry: &&[u8]| entry.strip_prefix(name.as_bytes()).is_some_and(is_value);
        let entry = environ.split(|byte| *byte == 0).find(is_it)?;
        let value = std::str::from_utf8(entry.get(name.len().saturating_add(1)..)?).ok()?;
        Some(value).filter(|value| value.starts_with('/') && !value.chars().any(char::is_control))
    };
    let is_set = |entry: &[u8]| entry.strip_prefix(CONFIG_DIR.as_bytes()).is_some_and(is_value);
    if environ.split(|byte| *byte == 0).any(is_set) {
        return value(CONFIG_DIR).map(str::to_owned);
    }
    value("HOME").map(|home| format!("{home}/.claude"))
}

/// Whether the text after a variable's name is `=` and a value.
fn is_value(rest: &[u8]) -> bool {
    rest.strip_prefix(b"=").is_some_and(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    // H-18: variables that choose the account are recognized by name.
    #[test]
    fn accounts_endpoints_and_proxies_are_told() {
        for name in [
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_BASE_URL",
            "CLAUDE_CONFIG_DIR",
            "CLAUDE_CODE_USE_BEDROCK",
            "CLAUDE_CODE_SKIP_VERTEX_AUTH",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "AWS_PROFILE",
            "VERTEX_REGION_CLAUDE_5_OPUS",
            "HTTPS_PROXY",
            "no_proxy",
        ] {
            assert!(chooses(name), "{name}");
        }
        for name in ["PATH", "HOME", "AWS", "CLAUDE_EFFORT", "CLAUDE_CODE_TMPDIR", "MY_ANTHROPIC_"]
        {
            assert!(!chooses(name), "{name}");
        }
        assert!(!MARKS.iter().any(|mark| chooses(mark)));
    }

    // H-18, G11: values are never kept, and an empty value counts as none.
    #[test]
    fn names_are_kept_and_values_are_not() {
        let environ = b"PATH=/bin\0ANTHROPIC_MODEL=a=b\0AWS_PROFILE=\0odd\0HTTP_PROXY=x\0\
            ANTHROPIC_MODEL=c\0\xff=1\0ANTHROPIC_API_KEY=sk";
        let expected = ["ANTHROPIC_API_KEY", "ANTHROPIC_MODEL", "HTTP_PROXY"];
        assert_eq!(names(environ).unwrap(), expected);
        assert_eq!(names(b"").unwrap(), Vec::<String>::new());
        let many: Vec<String> = (0..=NAMES_MAX).map(|n| format!("AWS_{n}=1")).collect();
        assert!(names(many.join("\0").as_bytes()).is_err());
        assert!(names(format!("AWS_{}=1", "A".repeat(NAME_BYTES_MAX)).as_bytes()).is_err());
    }
}
