// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pod, the container or the virtual machine that a cgroup belongs to, as far as its path says so.
//!
//! ```text
//! systemd     /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice/cri-containerd-ID.scope
//! cgroupfs    /kubepods/burstable/podUID/ID
//! outside of  /system.slice/docker-ID.scope   /docker/ID   /machine.slice/libpod-ID.scope
//! both        /system.slice/kubepods-burstable-podUID.slice:cri-containerd:ID (cgroupfs, given systemd's)
//! machines    /machine.slice/machine-qemu\x2d1\x2dNAME.scope (libvirt)   /lxc.payload.NAME
//! ```
//!
//! A path has no namespace and no name of a pod. [`PodNames`] has them, where the kubelet's files can be
//! read; else `pod_uid` and `container_id` join with the API server's (kube-state-metrics: `uid`,
//! `container_id`). With systemd the dashes of a UID are written `_`, since `-` divides slices.
//!
//! Sources: Kubernetes, `pkg/kubelet/cm`; containerd and CRI-O for the scopes; systemd, `unit-name.c`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodName {
    pub namespace: String,
    pub pod: String,
}

/// Names of pods and containers, where they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodNames {
    /// Pods by their UID, written as it stands in paths of cgroups.
    pub pods: BTreeMap<String, PodName>,
    /// Names of containers by their ids.
    pub containers: BTreeMap<String, String>,
}

impl PodNames {
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.containers.is_empty()
    }

    /// The pod of an owner, and the name of its container.
    pub fn of(&self, owner: &Owner) -> Option<(&PodName, Option<&str>)> {
        let pod = self.pods.get(owner.pod_uid.as_ref()?)?;
        let id = owner.container_id.as_ref();
        let container = id.and_then(|id| self.containers.get(id));
        Some((pod, container.map(String::as_str)))
    }

    /// [`Owner::short`] of a path, with names in the place of ids where they are known: `pod:shop/web-0/app`.
    pub fn short(&self, path: &str) -> Option<String> {
        let owner = owner(path);
        let begin = |id: &String| id.chars().take(SHOWN).collect::<String>();
        let Some((PodName { namespace, pod }, container)) = self.of(&owner) else {
            return owner.short;
        };
        let container = container.map(str::to_owned);
        Some(match container.or(owner.container_id.as_ref().map(begin)) {
            Some(container) => format!("pod:{namespace}/{pod}/{container}"),
            None => format!("pod:{namespace}/{pod}"),
        })
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// UID of the pod, with dashes as Kubernetes has it; of a static pod 32 digits.
    pub pod_uid: Option<String>,
    /// The container's id: 64 hexadecimal digits.
    pub container_id: Option<String>,
    /// Name of a virtual machine or system container, as `machinectl` shows it.
    pub machine: Option<String>,
    /// All of it in a word for a screen: `pod:2f4c1a7e/0d1f2a3b4c5d`, `docker:0d1f2a3b4c5d`,
    /// `machine:qemu-1-vm`.
    pub short: Option<String>,
}

/// What runtimes put before the id, and what people call them. Prefixes that others begin with stand behind
/// those.
const RUNTIMES: [(&str, &str); 6] = [
    ("cri-containerd-", "containerd"),
    ("nerdctl-", "nerdctl"),
    ("docker-", "docker"),
    ("libpod-", "podman"),
    ("crio-", "cri-o"),
    ("containerd-", "containerd"),
];
/// Digits of ids that are shown, as Docker does.
const SHOWN: usize = 12;
const POD_SHOWN: usize = 8;
const ID_DIGITS: usize = 64;

/// What this cgroup's path (its id, [`crate::WorkloadId`]) says. What is deeper counts for more: a container
/// in a container.
pub fn owner(path: &str) -> Owner {
    let mut owner = Owner::default();
    let mut runtime = None;
    let mut above = "";
    let parts = path.split('/').filter(|part| !part.is_empty());
    for part in parts.flat_map(words) {
        if let Some(uid) = pod_uid(part) {
            owner = Owner {
                pod_uid: Some(uid),
                ..Owner::default()
            };
        } else if let Some((id, by)) = container(part, above) {
            owner.container_id = Some(id.to_owned());
            runtime = by;
        } else if let Some(name) = machine(part) {
            owner = Owner {
                machine: Some(name),
                ..Owner::default()
            };
        }
        above = part;
    }
    owner.short = short(&owner, runtime);
    owner
}

/// A directory as it is; or, as cgroupfs makes one of what is meant for systemd (`SLICE:RUNTIME:ID`), the
/// words of its name, which say the same as directories one below the other.
fn words(part: &str) -> impl Iterator<Item = &str> {
    let is_for_systemd = part.bytes().filter(|byte| *byte == b':').count() == 2;
    let (whole, each) = if is_for_systemd {
        (None, Some(part.split(':')))
    } else {
        (Some(part), None)
    };
    let each = each.into_iter().flatten().filter(|word| !word.is_empty());
    whole.into_iter().chain(each)
}

fn short(owner: &Owner, runtime: Option<&str>) -> Option<String> {
    let begin = |text: &str, count: usize| text.chars().take(count).collect::<String>();
    let container = owner.container_id.as_deref().map(|id| begin(id, SHOWN));
    match (&owner.pod_uid, container, &owner.machine) {
        (Some(uid), Some(id), _) => Some(format!("pod:{}/{id}", begin(uid, POD_SHOWN))),
        (Some(uid), None, _) => Some(format!("pod:{}", begin(uid, POD_SHOWN))),
        (None, Some(id), _) => Some(format!("{}:{id}", runtime.unwrap_or("container"))),
        (None, None, Some(name)) => Some(format!("machine:{name}")),
        (None, None, None) => None,
    }
}

/// `podUID`, or a slice that ends in `-podUID.slice`.
fn pod_uid(part: &str) -> Option<String> {
    let text = match part.strip_suffix(".slice") {
        Some(slice) => slice.rsplit_once("-pod")?.1,
        None => part.strip_prefix("pod")?,
    };
    let uid = text.replace('_', "-");
    let groups: Vec<&str> = uid.split('-').collect();
    let is_hex = |group: &&str| group.bytes().all(|b| b.is_ascii_hexdigit());
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    let is_uid = matches!(lengths[..], [8, 4, 4, 4, 12] | [32]) && groups.iter().all(is_hex);
    is_uid.then_some(uid)
}

/// A container's id, and by which runtime, if the path says so.
fn container<'a>(part: &'a str, above: &str) -> Option<(&'a str, Option<&'static str>)> {
    let plain = part.strip_suffix(".scope").unwrap_or(part);
    let found = RUNTIMES
        .iter()
        .find_map(|(prefix, name)| Some((plain.strip_prefix(prefix)?, *name)));
    let (id, runtime) = match found {
        Some((id, name)) => (id, Some(name)),
        // Below a directory of a runtime's name, or of one that does not say so.
        None => (plain, runtime_of(above)),
    };
    let is_id = id.len() == ID_DIGITS && id.bytes().all(|b| b.is_ascii_hexdigit());
    is_id.then_some((id, runtime))
}

/// The runtime of such a name, as prefixes have it.
fn runtime_of(word: &str) -> Option<&'static str> {
    let is_it = |(prefix, _): &&(&str, &str)| prefix.strip_suffix('-') == Some(word);
    RUNTIMES.iter().find(is_it).map(|(_, name)| *name)
}

/// A scope that systemd-machined has made, or LXC's payload.
fn machine(part: &str) -> Option<String> {
    let of_machined = part
        .strip_prefix("machine-")
        .and_then(|rest| rest.strip_suffix(".scope"));
    let name = of_machined.or_else(|| part.strip_prefix("lxc.payload."))?;
    (!name.is_empty()).then(|| unescaped(name))
}

/// `\xNN` of systemd undone. A name that would then not be plain text stays as it is.
fn unescaped(name: &str) -> String {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let hex = rest.strip_prefix("\\x").and_then(|digits| digits.get(..2));
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = rest.get(4..).unwrap_or_default();
            }
            None => {
                let (head, tail) = rest.split_at(first.len_utf8());
                bytes.extend_from_slice(head.as_bytes());
                rest = tail;
            }
        }
    }
    match String::from_utf8(bytes) {
        Ok(text)
            if text
                .bytes()
                .all(|b| b.is_ascii_graphic() || b >= 0x80 || b == b' ')
                && !text.chars().any(char::is_control) =>
        {
            text
        }
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UID: &str = "2f4c1a7e-0b1d-4c3e-9f5a-6b7c8d9e0f1a";
    const OLD: &str = "2f4c1a7e0b1d4c3e9f5a6b7c8d9e0f1a";
    const ID: &str = "0d1f2a3b4c5d6e7f80919293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7";

    fn said(path: &str) -> [String; 4] {
        let path = path
            .replace("_UID", &UID.replace('-', "_"))
            .replace("UID", UID);
        let owner = owner(&path.replace("OLD", OLD).replace("ID", ID));
        [
            owner.pod_uid,
            owner.container_id,
            owner.machine,
            owner.short,
        ]
        .map(Option::unwrap_or_default)
    }

    #[test]
    fn pods_by_both_drivers_and_all_runtimes() {
        for (path, uid) in [
            (
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod_UID.slice/cri-containerd-ID.scope",
                UID,
            ),
            ("/kubepods.slice/kubepods-pod_UID.slice/crio-ID.scope", UID),
            (
                "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort-pod_UID.slice/docker-ID.scope",
                UID,
            ),
            ("/kubepods/burstable/podUID/ID", UID),
            (
                "/system.slice/kubepods-besteffort-pod_UID.slice:cri-containerd:ID",
                UID,
            ),
            ("/kubepods-burstable-podOLD.slice:crio:ID/init", OLD),
            ("/kubepods/podUID/ID/init", UID),
            ("/kubepods/besteffort/podUID/crio-ID", UID),
            (
                "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podOLD.slice/cri-containerd-ID.scope",
                OLD,
            ),
        ] {
            let short = "pod:2f4c1a7e/0d1f2a3b4c5d";
            assert_eq!(said(path), [uid, ID, "", short], "{path}");
        }
        let sandbox = said("/kubepods/burstable/podUID");
        assert_eq!(sandbox, [UID, "", "", "pod:2f4c1a7e"]);
    }

    #[test]
    fn names_stand_in_the_place_of_ids_where_they_are_known() {
        let pod = PodName {
            namespace: "shop".into(),
            pod: "web-0".into(),
        };
        let mut names = PodNames {
            pods: BTreeMap::from([(UID.to_owned(), pod)]),
            containers: BTreeMap::new(),
        };
        let slice = "/kubepods/burstable/podUID".replace("UID", UID);
        let path = format!("{slice}/{ID}");
        assert_eq!(names.short(&slice).as_deref(), Some("pod:shop/web-0"));
        assert_eq!(
            names.short(&path).as_deref(),
            Some("pod:shop/web-0/0d1f2a3b4c5d")
        );
        names.containers.insert(ID.to_owned(), "app".to_owned());
        assert_eq!(names.short(&path).as_deref(), Some("pod:shop/web-0/app"));
        let other = path.replace(UID, "3f4c1a7e-0b1d-4c3e-9f5a-6b7c8d9e0f1a");
        assert_eq!(
            names.short(&other).as_deref(),
            Some("pod:3f4c1a7e/0d1f2a3b4c5d")
        );
        assert_eq!(names.short("/system.slice/a.service"), None);
    }

    #[test]
    fn containers_outside_of_kubernetes() {
        for (path, short) in [
            ("/system.slice/docker-ID.scope", "docker:0d1f2a3b4c5d"),
            ("/docker/ID", "docker:0d1f2a3b4c5d"),
            ("/system.slice:docker:ID", "docker:0d1f2a3b4c5d"),
            ("/machine.slice:libpod:ID/init", "podman:0d1f2a3b4c5d"),
            ("/:cri-containerd:ID", "containerd:0d1f2a3b4c5d"),
            ("/a.slice:other:ID", "container:0d1f2a3b4c5d"),
            (
                "/machine.slice/libpod-ID.scope/container",
                "podman:0d1f2a3b4c5d",
            ),
            ("/system.slice/nerdctl-ID.scope", "nerdctl:0d1f2a3b4c5d"),
            (
                "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-ID.scope",
                "podman:0d1f2a3b4c5d",
            ),
            ("/default/ID", "container:0d1f2a3b4c5d"),
        ] {
            assert_eq!(said(path), ["", ID, "", short], "{path}");
        }
    }

    #[test]
    fn machines_have_the_name_that_machinectl_shows() {
        for (path, name) in [
            (
                r"/machine.slice/machine-qemu\x2d1\x2dvm.scope/libvirt/vcpu0",
                "qemu-1-vm",
            ),
            (r"/machine.slice/machine-gr\xc3\xb6\xc3\x9fe.scope", "größe"),
            (r"/machine.slice/machine-a\x1b[2J.scope", r"a\x1b[2J"),
            (r"/machine.slice/machine-a\xff.scope", r"a\xff"),
            (r"/machine.slice/machine-a\x2.scope", r"a\x2"),
            ("/lxc.payload.web", "web"),
        ] {
            let short = format!("machine:{name}");
            assert_eq!(said(path), ["", "", name, &short], "{path}");
        }
    }

    #[test]
    fn other_paths_say_nothing() {
        for path in [
            "/",
            "",
            "/system.slice/fio.service",
            "/kubepods.slice/kubepods-burstable.slice",
            "/kubepods/burstable/pod12",
            "/system.slice/docker.service",
            "/system.slice/podUIDx",
            "/machine.slice/machine-.scope",
            "/libpod-conmon-ID.scope",
            "pid:12@345",
            "/system.slice:docker:web",
            "/a:b:c:ID",
        ] {
            assert_eq!(said(path), ["", "", "", ""], "{path}");
        }
    }

    #[test]
    fn what_is_deeper_counts_for_more() {
        let other = "f".repeat(64);
        let inner = owner(&format!("/system.slice/docker-{ID}.scope/docker/{other}"));
        assert_eq!(inner.container_id.as_deref(), Some(other.as_str()));
    }

    proptest! {
        #[test]
        fn any_path_is_survived(path: String, odd in "[/\\\\\\\\x0-9a-f.machine\\-scopepod_é]{0,60}") {
            for text in [path, odd] {
                let owner = owner(&text);
                let machine = owner.machine.unwrap_or_default();
                prop_assert!(text.contains(&machine) || !machine.chars().any(char::is_control));
            }
        }
    }
}
