//! Telling file systems that several machines share from those of this machine alone.

use std::io;
use std::path::Path;

/// What `statfs` says of the file systems that other machines may have mounted too.
const SHARED: [(u32, &str); 22] = [
    (0x0000_6969, "NFS"),
    (0x0000_517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB 2"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x00c3_6400, "Ceph"),
    (0x0102_1997, "9p"),
    (0x7375_7245, "Coda"),
    (0x0000_564c, "NCP"),
    (0x0bd0_0bd0, "Lustre"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x4750_4653, "GPFS"),
    (0x2003_0528, "OrangeFS"),
    (0x1983_0326, "BeeGFS"),
    (0x6163_6673, "ACFS"),
    (0xbeef_dead, "StorNext"),
    (0xaad7_aaea, "PanFS"),
    (0x786f_4256, "VirtualBox shared folder"),
    (0xbacb_acbc, "VMware shared folder"),
    (0x7c7c_6673, "Parallels shared folder"),
];

/// What `statfs` says of every file system that a program provides, wherever it takes it from.
const FUSE: u32 = 0x6573_5546;

/// Types, as the kernel lists its mounts, of FUSE file systems that other machines may see.
const SHARED_FUSE: [&str; 24] = [
    "fuse.afp",
    "fuse.blobfuse",
    "fuse.blobfuse2",
    "fuse.ceph",
    "fuse.ceph-fuse",
    "fuse.curlftpfs",
    "fuse.davfs",
    "fuse.gcsfuse",
    "fuse.glusterfs",
    "fuse.goofys",
    "fuse.gvfsd-fuse",
    "fuse.juicefs",
    "JuiceFS:fuse",
    "fuse.mfs",
    "fuse.moosefs",
    "fuse.mount-s3",
    "fuse.quobyte",
    "fuse.rclone",
    "fuse.s3fs",
    "fuse.seaweedfs",
    "fuse.smbnetfs",
    "fuse.sshfs",
    "fuse.vmhgfs-fuse",
    "virtiofs",
];

/// What kind of network file system `path` is on; `None` also where the system does not say.
pub(super) fn kind_of(path: &Path) -> Option<&'static str> {
    let (magic, device) = look(path).ok()?;
    // Read only where it is needed: the list can be long.
    let mounts = if magic == FUSE {
        std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default()
    } else {
        String::new()
    };
    kind(magic, device, &mounts)
}

/// The number that names the kind of file system, and the device that names the very one.
#[cfg(target_os = "linux")]
fn look(path: &Path) -> io::Result<(u32, (u32, u32))> {
    let device = rustix::fs::stat(path)?.st_dev;
    // The numbers have 32 bits; the type that the kernel has for them is another on each machine.
    let [a, b, c, d, ..] = rustix::fs::statfs(path)?.f_type.to_le_bytes();
    let device = (rustix::fs::major(device), rustix::fs::minor(device));
    Ok((u32::from_le_bytes([a, b, c, d]), device))
}

#[cfg(not(target_os = "linux"))]
fn look(_: &Path) -> io::Result<(u32, (u32, u32))> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The answer from what was looked up: `magic` of `statfs`, the device, and the kernel's list of
/// mounts.
fn kind(magic: u32, device: (u32, u32), mounts: &str) -> Option<&'static str> {
    if magic == FUSE {
        let kind = mounts
            .lines()
            .find_map(|line| kind_of_mount(line, device))?;
        return SHARED_FUSE.into_iter().find(|shared| *shared == kind);
    }
    let mut shared = SHARED.into_iter();
    shared.find_map(|(known, name)| (known == magic).then_some(name))
}

/// The type in a line of the list, if it is a mount of the device: `id parent major:minor root
/// place options [fields …] - type source options`. Spaces in names are escaped.
fn kind_of_mount(line: &str, (major, minor): (u32, u32)) -> Option<&str> {
    let (mount, kind) = line.split_once(" - ")?;
    let is_meant = mount.split(' ').nth(2) == Some(&format!("{major}:{minor}"));
    is_meant.then(|| kind.split(' ').next()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
312 27 0:61 / /home/me/far rw,nosuid,nodev,relatime shared:174 - fuse.sshfs me@host:/srv rw,user_id=1000,group_id=1000
313 27 0:62 / /mnt/pool rw,relatime shared:175 - fuse.mergerfs a:b rw,user_id=0,group_id=0,allow_other
314 27 0:63 / /mnt/gv0 rw,relatime shared:176 master:3 - fuse.glusterfs server:/gv0 rw,user_id=0,max_read=131072
315 27 8:17 / /media/me/My\\040Stick rw,nosuid,nodev - fuseblk /dev/sdb1 rw,user_id=0,blksize=4096
316 27 0:64 / /work rw,relatime - virtiofs share rw
317 27 0:65 / /plain rw,relatime - fuse helper rw,user_id=0
";

    #[test]
    fn a_file_system_of_the_kernel_is_known_by_its_number() {
        let name = |magic| kind(magic, (0, 61), MOUNTS);
        for (magic, expected) in [
            (0x6969, "NFS"),
            (0xff53_4d42, "CIFS"),
            (0xfe53_4d42, "SMB 2"),
            (0x0102_1997, "9p"),
            (0x00c3_6400, "Ceph"),
            (0x0bd0_0bd0, "Lustre"),
        ] {
            assert_eq!(name(magic), Some(expected));
        }
        // ext4, tmpfs, btrfs, XFS, overlay, ZFS.
        for magic in [
            0xef53,
            0x0102_1994,
            0x9123_683e,
            0x5846_5342,
            0x794c_7630,
            0x2fc1_2fc1,
        ] {
            assert_eq!(name(magic), None, "{magic:#x}");
        }
    }

    #[test]
    fn a_file_system_of_a_program_is_known_by_its_line_among_the_mounts() {
        let name = |device| kind(FUSE, device, MOUNTS);
        assert_eq!(name((0, 61)), Some("fuse.sshfs"));
        assert_eq!(name((0, 63)), Some("fuse.glusterfs"));
        assert_eq!(name((0, 64)), Some("virtiofs"));
        // A pool of local disks, a stick, and one that does not say what it is.
        for device in [(0, 62), (8, 17), (0, 65)] {
            assert_eq!(name(device), None, "{device:?}");
        }
    }

    #[test]
    fn what_is_not_among_the_mounts_is_not_refused() {
        assert_eq!(kind(FUSE, (0, 99), MOUNTS), None);
        assert_eq!(kind(FUSE, (0, 61), ""), None);
        assert_eq!(kind(FUSE, (0, 61), "31 0:61 - \n - \nx"), None);
        // The device, and not merely something that begins or ends like it.
        assert_eq!(kind(FUSE, (0, 6), MOUNTS), None);
        assert_eq!(kind(FUSE, (10, 61), MOUNTS), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_says_what_a_path_is_on() {
        let (magic, _) = look(Path::new("/proc")).unwrap();
        assert_eq!(magic, 0x9fa0);
        assert_eq!(kind_of(Path::new("/proc")), None);
        assert!(look(Path::new("/no/such/place")).is_err());
        // Its line is found by the device.
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let (_, proc) = look(Path::new("/proc")).unwrap();
        let kinds: Vec<&str> = mounts
            .lines()
            .filter_map(|line| kind_of_mount(line, proc))
            .collect();
        assert_eq!(kinds.first(), Some(&"proc"), "{mounts}");
    }
}
