// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What Kubernetes calls pods and their containers, by the names of files that the kubelet and the runtime
//! make for logs. Nothing is asked: no API server, no socket of the runtime.
//!
//! ```text
//! /var/log/pods/NAMESPACE_POD_UID/                        a directory for each pod
//! /var/log/containers/POD_NAMESPACE_CONTAINER-ID.log      a link for each container
//! ```
//!
//! A directory is listed again only when its time has changed. Sources: Kubernetes,
//! `pkg/kubelet/kuberuntime/helpers.go` (`BuildPodLogsDirectory`), `legacy.go` (`legacyLogSymlink`).

use crate::options::Roots;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_core::owner::{PodName, PodNames};

/// Most entries of a directory that are read. A node has some hundred pods.
const ENTRIES_MAX: usize = 20_000;
/// Lengths of names in Kubernetes: a DNS subdomain, a DNS label.
const SUBDOMAIN_MAX: usize = 253;
const LABEL_MAX: usize = 63;
const ID_DIGITS: usize = 64;

/// Names, and of which state of the directories they are.
#[derive(Debug, Default)]
pub(crate) struct PodLogs {
    pods: PathBuf,
    containers: PathBuf,
    read_at: Option<[DirTime; 2]>,
    names: Arc<PodNames>,
}

/// When a directory was changed last: seconds and nanoseconds; nothing where it is not there.
type DirTime = Option<(i64, i64)>;

impl PodLogs {
    pub(crate) fn of(roots: &Roots) -> PodLogs {
        PodLogs {
            pods: roots.log.join("pods"),
            containers: roots.log.join("containers"),
            ..PodLogs::default()
        }
    }

    pub(crate) fn names(&mut self) -> Arc<PodNames> {
        let now = [changed(&self.pods), changed(&self.containers)];
        if self.read_at != Some(now) {
            // A change while it is listed has a later time, and is read the next time.
            self.read_at = Some(now);
            self.names = Arc::new(PodNames {
                pods: entries(&self.pods).filter_map(|name| pod(&name)).collect(),
                containers: entries(&self.containers)
                    .filter_map(|name| container(&name))
                    .collect(),
            });
        }
        Arc::clone(&self.names)
    }
}

fn changed(dir: &Path) -> DirTime {
    let meta = dir.metadata().ok()?;
    Some((meta.mtime(), meta.mtime_nsec()))
}

/// Names in a directory; none where it cannot be listed. Names that are no text are no names of Kubernetes.
fn entries(dir: &Path) -> impl Iterator<Item = String> {
    let list = std::fs::read_dir(dir).ok();
    let list = list.into_iter().flatten().take(ENTRIES_MAX);
    list.filter_map(|entry| entry.ok()?.file_name().into_string().ok())
}

/// A pod's UID and its names, from `NAMESPACE_POD_UID`. A UID has 36 characters as a UUID, and 32 where it is
/// a hash without dashes.
fn pod(name: &str) -> Option<(String, PodName)> {
    let mut parts = name.split('_');
    let (namespace, pod, uid) = (parts.next()?, parts.next()?, parts.next()?);
    let is_uid =
        uid.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-') && (32..=36).contains(&uid.len());
    let is_sound = is_uid && parts.next().is_none() && is_name(namespace, LABEL_MAX);
    (is_sound && is_name(pod, SUBDOMAIN_MAX)).then(|| {
        let name = PodName {
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
        };
        (uid.to_owned(), name)
    })
}

/// `POD_NAMESPACE_CONTAINER-ID.log`: an id, and the container's name.
fn container(name: &str) -> Option<(String, String)> {
    let mut parts = name.strip_suffix(".log")?.split('_');
    let (_, _, last) = (parts.next()?, parts.next()?, parts.next()?);
    let (container, id) = last.rsplit_once('-')?;
    let is_id = id.len() == ID_DIGITS && id.bytes().all(|b| b.is_ascii_hexdigit());
    let is_sound = is_id && parts.next().is_none() && is_name(container, LABEL_MAX);
    is_sound.then(|| (id.to_owned(), container.to_owned()))
}

fn is_name(text: &str, most: usize) -> bool {
    let is_of_name =
        |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.');
    (1..=most).contains(&text.len()) && text.bytes().all(is_of_name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use std::fs;

    const UID: &str = "2f4c1a7e-0b1d-4c3e-9f5a-6b7c8d9e0f1a";

    #[test]
    fn names_are_read_and_followed() {
        let fake = Fake::new();
        let mut logs = PodLogs::of(&fake.roots());
        assert_eq!(
            *logs.names(),
            PodNames::default(),
            "without a kubelet there are none"
        );
        let id = "0d1f".repeat(16);
        fs::create_dir_all(fake.path(format!("var/log/pods/shop_web-0_{UID}/app"))).unwrap();
        fake.write(format!("var/log/containers/web-0_shop_app-{id}.log"), "");
        let seen = logs.names();
        let web = PodName {
            namespace: "shop".into(),
            pod: "web-0".into(),
        };
        assert_eq!(seen.pods.get(UID), Some(&web));
        assert_eq!(seen.containers.get(&id).map(String::as_str), Some("app"));
        assert!(
            Arc::ptr_eq(&seen, &logs.names()),
            "what has not changed is not listed"
        );
        fs::remove_dir_all(fake.path("var/log/pods")).unwrap();
        assert!(logs.names().pods.is_empty());
    }

    #[test]
    fn what_is_no_name_of_kubernetes_is_left_out() {
        let long = format!("{}_p_{UID}", "n".repeat(64));
        for name in [
            "shop_web-0",
            "shop_web_0_1_2",
            &format!("shop_web\u{1b}[2J_{UID}"),
            &format!("Shop_web_{UID}"),
            &format!("_web_{UID}"),
            "shop_web_zz",
            &long,
        ] {
            assert_eq!(pod(name), None, "{name:?}");
        }
        let id = "f".repeat(64);
        for name in [
            format!("web_shop_app-{id}"),
            format!("web_shop_app-{}.log", "f".repeat(63)),
            format!("web_shop_a\"b-{id}.log"),
            format!("web_shop_-{id}.log"),
        ] {
            assert_eq!(container(&name), None, "{name:?}");
        }
    }
}
