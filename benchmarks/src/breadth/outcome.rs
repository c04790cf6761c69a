//! What one run of `relive inspect --json` came to.

use serde_json::Value;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// Why some functions are not understood.
#[derive(Debug, PartialEq)]
pub(crate) struct Reason {
    pub(crate) reason: String,
    pub(crate) functions: u64,
    pub(crate) bytes: u64,
}

/// The numbers of `--json`.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Numbers {
    pub(crate) functions: u64,
    pub(crate) functions_understood: u64,
    pub(crate) bytes: u64,
    pub(crate) bytes_understood: u64,
    pub(crate) reasons: Vec<Reason>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Outcome {
    Inspected(Numbers),
    /// Exit 2, with its message.
    Refused(String),
    /// A panic (exit 101), a signal, or any other exit.
    Crash(String),
    Hang,
    /// Exit 0, but the output is not what the contract says.
    BadOutput(String),
}

impl Outcome {
    pub(crate) fn of(status: ExitStatus, stdout: &str, stderr: &str) -> Self {
        let message = stderr.lines().next().unwrap_or_default().to_owned();
        match status.code() {
            Some(0) => match numbers(stdout) {
                Ok(numbers) => Self::Inspected(numbers),
                Err(why) => Self::BadOutput(why),
            },
            Some(2) => Self::Refused(message),
            Some(code) => Self::Crash(format!("exit {code}: {message}")),
            None => Self::Crash(format!("signal {}: {message}", status.signal().unwrap_or_default())),
        }
    }

    /// The word in the TSV.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Inspected(_) => "inspected",
            Self::Refused(_) => "refused",
            Self::Crash(_) => "crash",
            Self::Hang => "hang",
            Self::BadOutput(_) => "bad output",
        }
    }

    /// Crashes, hangs and broken output are faults; a refusal with a message is an answer.
    pub(crate) fn is_fault(&self) -> bool {
        match self {
            Self::Inspected(_) => false,
            Self::Refused(message) => message.is_empty(),
            Self::Crash(_) | Self::Hang | Self::BadOutput(_) => true,
        }
    }

    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Refused(message) | Self::Crash(message) | Self::BadOutput(message) => message,
            Self::Inspected(_) | Self::Hang => "",
        }
    }
}

fn numbers(text: &str) -> Result<Numbers, String> {
    let json: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let number =
        |path: &str| json.pointer(path).and_then(Value::as_u64).ok_or_else(|| format!("no number {path}"));
    let reason = |entry: &Value| {
        let field = |name: &str| entry[name].as_u64().ok_or_else(|| format!("a reason without {name}"));
        let reason = entry["reason"].as_str().ok_or("a reason without a name")?.to_owned();
        Ok(Reason { reason, functions: field("functions")?, bytes: field("bytes")? })
    };
    Ok(Numbers {
        functions: number("/functions/total")?,
        functions_understood: number("/functions/understood")?,
        bytes: number("/text_bytes/total")?,
        bytes_understood: number("/text_bytes/understood")?,
        reasons: json["reasons"]
            .as_array()
            .ok_or("no reasons")?
            .iter()
            .map(reason)
            .collect::<Result<_, String>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{"functions":{"total":10,"understood":9},"text_bytes":{"total":500,"understood":400},
        "reasons":[{"reason":"indirect jump","functions":1,"bytes":100}]}"#;

    #[test]
    fn each_exit() {
        let exit = |code: i32| ExitStatus::from_raw(code << 8);
        let Outcome::Inspected(numbers) = Outcome::of(exit(0), JSON, "") else { panic!() };
        assert_eq!((numbers.functions, numbers.bytes_understood, numbers.reasons.len()), (10, 400, 1));
        assert!(Outcome::of(exit(0), "{}", "").is_fault());
        assert_eq!(
            Outcome::of(exit(2), "", "error: not ELF\n"),
            Outcome::Refused("error: not ELF".to_owned())
        );
        assert!(!Outcome::of(exit(2), "", "error: not ELF\n").is_fault());
        assert!(Outcome::of(exit(101), "", "thread panicked\n").is_fault());
        assert_eq!(Outcome::of(ExitStatus::from_raw(11), "", "").message(), "signal 11: ");
    }
}
