//! `cargo dev cluster` reports a missing requirement in one line and leaves nothing behind.

#![expect(clippy::unwrap_used, reason = "missing data fails the test")]

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

/// Returns a folder for the path, with a `kubectl` that runs the script.
fn path_with(name: &str, kubectl: Option<&str>) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("cluster-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    if let Some(script) = kubectl {
        let program = folder.join("kubectl");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(program, PermissionsExt::from_mode(0o755)).unwrap();
    }
    folder
}

/// Returns the error output of the command.
fn error_output(name: &str, kubectl: Option<&str>) -> String {
    let path = path_with(name, kubectl);
    let mut command = Command::new(env!("CARGO_BIN_EXE_cluster"));
    let output = command.args(["cluster", "--namespace", name]).env("PATH", &path).output().unwrap();
    // Checks that the command has changed nothing.
    let calls = std::fs::read_to_string(path.join("calls")).unwrap_or_default();
    assert!(
        !calls.lines().any(|line| ["apply", "create", "delete"].iter().any(|verb| line.starts_with(verb)))
    );
    std::fs::remove_dir_all(path).unwrap();
    assert!(!output.status.success());
    assert_eq!(output.stdout, b"");
    String::from_utf8(output.stderr).unwrap()
}

/// Returns a script that logs its arguments, prints a version, and runs `rest` for other
/// subcommands.
fn kubectl_script(rest: &str) -> String {
    format!(
        "echo \"$@\" >> \"${{0%/*}}/calls\"\n\
         case \"$1\" in version) echo '{{\"serverVersion\": {{\"gitVersion\": \"v1\"}}}}' ;; {rest} esac"
    )
}

#[test]
fn missing_requirement_is_reported_in_one_line() {
    assert_eq!(
        error_output("tool", None),
        "error: no cluster responds: kubectl is missing: No such file or directory (os error 2)\n"
    );
    let refused = "echo 'E1122 trying again' >&2\necho 'The connection was refused' >&2\nexit 1";
    assert_eq!(
        error_output("away", Some(refused)),
        "error: no cluster responds: kubectl: The connection was refused\n"
    );
    let unprivileged = kubectl_script("auth) [ \"$3\" != create ] || exit 1 ;;");
    assert_eq!(
        error_output("rights", Some(&unprivileged)),
        "error: the user of KUBECONFIG may not create namespaces\n"
    );
    let taken = kubectl_script("get) echo namespace/taken ;;");
    assert_eq!(
        error_output("taken", Some(&taken)),
        "error: namespace taken exists; --namespace selects another one\n"
    );
}
