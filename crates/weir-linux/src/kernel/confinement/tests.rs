// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a confined thread cannot do, tried in a thread of its own.

use super::system_calls::refuse;
use super::writer::refused;
use super::*;
use rustix::thread::{CapabilitySet, capabilities};
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::ptr::null;
use std::sync::mpsc::sync_channel;
use std::thread;

/// The error of a raw call; 0 where it was let through.
fn answer(result: libc::c_long) -> i32 {
    if result < 0 {
        io::Error::last_os_error().raw_os_error().unwrap_or(0)
    } else {
        0
    }
}

fn error_of<T>(result: io::Result<T>) -> i32 {
    result.map_or_else(|error| error.raw_os_error().unwrap_or(-1), |_| 0)
}

/// What a process that was taken over would try, each with its error. No attempt changes anything where it is
/// let through.
fn attempts() -> Vec<(&'static str, i32)> {
    let missing = CString::new("/nowhere/program").unwrap();
    let arguments = [missing.as_ptr(), null()];
    let raw = |number, arguments: [i64; 4]| {
        let [a, b, c, d] = arguments;
        // SAFETY: callers give what the call's manual page says; pointers live until its end.
        answer(unsafe { libc::syscall(number, a, b, c, d) })
    };
    let exec = [missing.as_ptr() as i64, arguments.as_ptr() as i64, 0, 0];
    let seize = [i64::from(libc::PTRACE_SEIZE), 0, 0, 0];
    vec![
        ("execve", raw(libc::SYS_execve, exec)),
        ("bpf", raw(libc::SYS_bpf, [0; 4])),
        ("ptrace", raw(libc::SYS_ptrace, seize)),
        (
            "kill",
            raw(libc::SYS_kill, [i64::from(std::process::id()), 0, 0, 0]),
        ),
        ("shadow", error_of(File::open("/etc/shadow"))),
        ("cgroups", error_of(File::open("/sys/fs/cgroup"))),
        ("another process", error_of(File::open("/proc/1/status"))),
        ("a new file", error_of(tempfile::tempfile_in("/tmp"))),
        ("a program", error_of(Command::new("/bin/true").status())),
        ("listen", error_of(TcpListener::bind("127.0.0.1:0"))),
        ("a datagram", error_of(UdpSocket::bind("127.0.0.1:0"))),
        ("a local socket", error_of(UnixDatagram::unbound())),
        ("connect", error_of(TcpStream::connect("127.0.0.1:9"))),
    ]
}

/// In a thread of its own, which is confined and ends.
fn confined<T: Send + 'static>(needs: ServerNeeds, then: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = thread::spawn(move || {
        let lacking = confine_server(needs);
        assert!(lacking.is_empty(), "{lacking:?}");
        then()
    });
    thread.join().unwrap()
}

fn is_refused(error: i32) -> bool {
    [libc::EPERM, libc::EACCES].contains(&error)
}

#[test]
fn a_server_can_do_nothing_but_answer() {
    let free = thread::spawn(attempts).join().unwrap();
    for (what, error) in &free {
        let needs_root = ["bpf", "shadow"].contains(what);
        let may = rustix::process::geteuid().is_root() || !needs_root;
        assert!(
            !may || !is_refused(*error),
            "{what} without confinement: {error}"
        );
    }
    for accepts in [false, true] {
        let needs = ServerNeeds {
            accepts,
            connects_to: None,
        };
        for (what, error) in confined(needs, attempts) {
            assert!(is_refused(error), "{what}: {error}");
        }
    }
}

#[test]
fn a_server_answers_on_the_listener_that_it_was_given() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let needs = ServerNeeds {
        accepts: true,
        connects_to: None,
    };
    let (named, name) = sync_channel(1);
    let server = thread::spawn(move || {
        confined(needs, move || {
            let (mut stream, _) = listener.accept().unwrap();
            // Threads, memory and names work, and each new thread is as confined.
            let thread = thread::Builder::new().name("weir-test".into());
            let answer = move || {
                named.send(rustix::thread::gettid()).unwrap();
                // Until it was looked at.
                stream.read_exact(&mut [0]).unwrap();
                stream.write_all(&vec![b'x'; 4 << 20]).unwrap();
            };
            thread.spawn(answer).unwrap().join().unwrap();
        });
    });
    let mut client = TcpStream::connect(address).unwrap();
    let task = name.recv().unwrap().as_raw_nonzero();
    let status = fs::read_to_string(format!("/proc/self/task/{task}/status")).unwrap();
    client.write_all(b"?").unwrap();
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    server.join().unwrap();
    assert_eq!(text.len(), 4 << 20);
    let none = "0000000000000000";
    for line in [
        format!("CapPrm:\t{none}"),
        format!("CapEff:\t{none}"),
        "NoNewPrivs:\t1".into(),
        "Seccomp:\t2".into(),
    ] {
        assert!(status.lines().any(|of| of == line), "no {line} in {status}");
    }
    assert!(!status.contains("Uid:\t0\t"), "{status}");
}

#[test]
fn a_server_that_pushes_reaches_one_port_and_the_resolver() {
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, other) = (target.local_addr().unwrap(), other.local_addr().unwrap());
    let needs = ServerNeeds {
        accepts: false,
        connects_to: Some(port.port()),
    };
    let (found, tried, reached) = confined(needs, move || {
        let reached = [port, other].map(|address| error_of(TcpStream::connect(address)));
        (error_of(File::open("/etc/hosts")), attempts(), reached)
    });
    assert_eq!(found, 0, "/etc/hosts");
    assert!(reached[0] == 0 && is_refused(reached[1]), "{reached:?}");
    for (what, error) in tried {
        assert!(is_refused(error), "{what}: {error}");
    }
}

#[test]
fn a_writer_opens_no_socket_of_the_network_unless_it_pushes() {
    for with_push in [false, true] {
        let tried = thread::spawn(move || {
            // This thread alone is confined.
            refuse(refused(with_push).unwrap(), libc::EPERM).unwrap();
            let file = tempfile::tempfile();
            let attempts = attempts();
            (
                error_of(file),
                error_of(UdpSocket::bind("127.0.0.1:0")),
                attempts,
            )
        });
        let (file, socket, attempts) = tried.join().unwrap();
        assert_eq!(file, 0);
        assert_eq!(is_refused(socket), !with_push);
        let of = |name| attempts.iter().find(|(what, _)| *what == name).unwrap().1;
        assert!(is_refused(of("ptrace")));
        assert_eq!(of("a program"), 0, "it starts its server again");
        assert_eq!(of("a local socket"), 0, "it speaks to the service manager");
    }
}

#[test]
fn a_writer_keeps_the_capabilities_that_it_had_and_needs() {
    let (had, has) = thread::spawn(|| {
        let had = capabilities(None).unwrap().permitted;
        drop_writers_capabilities().unwrap();
        (had, capabilities(None).unwrap())
    })
    .join()
    .unwrap();
    assert_eq!(has.effective, has.permitted);
    assert_eq!(has.permitted & had, has.permitted, "none was added");
    let gone = CapabilitySet::SYS_MODULE | CapabilitySet::NET_ADMIN | CapabilitySet::MKNOD;
    assert!(!has.permitted.intersects(gone), "{:?}", has.permitted);
    let needed = CapabilitySet::BPF | CapabilitySet::SYS_PTRACE;
    assert_eq!(has.permitted & needed, had & needed);
}
