import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LeaseError } from "../../src/core/errors.ts";
import { networkFileSystem, prepareLocation } from "../../src/store/sqlite/location.ts";

const never = (): string => {
  throw new Error("nobody needs to know the mount");
};

describe("a network file system", () => {
  test.each([
    [0x6969, "NFS"],
    [0x517b, "SMB"],
    [0xff534d42, "CIFS"],
    [0xfe534d42, "SMB2"],
    [0x01021997, "9p"],
    [0x00c36400, "Ceph"],
    [0x5346414f, "AFS"],
    [0x6b414653, "AFS"],
    [0x0bd00bd0, "Lustre"],
    [0x73757245, "Coda"],
    [0x19830326, "BeeGFS"],
    [0x47504653, "GPFS"],
  ])("with magic number 0x%s is %s", (magic, name) => {
    expect(networkFileSystem(magic, never)).toBe(name);
  });

  test("is known by a number that arrives sign-extended, too", () => {
    expect(networkFileSystem(0xff534d42 | 0, never)).toBe("CIFS");
    expect(networkFileSystem(0xfe534d42 | 0, never)).toBe("SMB2");
  });

  test.each(["fuse.sshfs", "fuse.s3fs", "fuse.rclone", "fuse.glusterfs", "fuse.gcsfuse", "fuse"])(
    "is anything in user space that is not known to be local: %s",
    (kind) => {
      expect(networkFileSystem(0x65735546, () => kind)).toBe(kind);
    },
  );
});

describe("a local file system", () => {
  test.each([
    ["ext4", 0xef53],
    ["XFS", 0x58465342],
    ["Btrfs", 0x9123683e],
    ["ZFS", 0x2fc12fc1],
    ["tmpfs", 0x01021994],
    ["overlayfs", 0x794c7630],
    ["F2FS", 0xf2f52010],
    ["bcachefs", 0xca451a4e],
    ["APFS, by the numbers of a Mac", 0x1a],
  ])("is %s", (_name, magic) => {
    expect(networkFileSystem(magic, never)).toBeNull();
  });

  test.each(["fuseblk", "fuse.ntfs-3g", "fuse.exfat", "fuse.fuse-overlayfs", "fuse.gocryptfs"])(
    "may be in user space: %s",
    (kind) => {
      expect(networkFileSystem(0x65735546, () => kind)).toBeNull();
    },
  );
});

describe("the place of a store", () => {
  let root: string;
  beforeAll(() => {
    root = mkdtempSync(join(tmpdir(), "lease-place-"));
  });
  afterAll(() => rmSync(root, { recursive: true, force: true }));

  const refusal = (path: string, options = { trust: false, create: true }): LeaseError => {
    try {
      prepareLocation(path, options);
    } catch (error) {
      if (error instanceof LeaseError) return error;
      throw error;
    }
    throw new Error("the place was accepted");
  };

  test("is made with its folders, closed to everybody else", () => {
    const path = join(root, "new/deep/lease.db");
    prepareLocation(path, { trust: false, create: true });
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(statSync(path).size).toBe(0);
    for (const folder of ["new", "new/deep"]) expect(statSync(join(root, folder)).mode & 0o777).toBe(0o700);
    // And taken as it is by the next.
    prepareLocation(path, { trust: false, create: false });
  });

  test("is not made by those who only ask", () => {
    const error = refusal(join(root, "asked/lease.db"), { trust: false, create: false });
    expect(error).toMatchObject({ code: "no_store", exit_code: 1 });
    expect(existsSync(join(root, "asked"))).toBe(false);
  });

  test("keeps the mode of a folder that was there", () => {
    const folder = join(root, "there");
    mkdirSync(folder, { mode: 0o755 });
    prepareLocation(join(folder, "lease.db"), { trust: false, create: true });
    expect(statSync(folder).mode & 0o777).toBe(0o755);
  });

  test("is refused when others can write the file or the folder, and taken on trust", () => {
    const folder = join(root, "open");
    mkdirSync(folder);
    chmodSync(folder, 0o770);
    expect(refusal(join(folder, "lease.db"))).toMatchObject({ code: "store_untrusted", exit_code: 125 });
    expect(existsSync(join(folder, "lease.db"))).toBe(false);
    prepareLocation(join(folder, "lease.db"), { trust: true, create: true });
    chmodSync(folder, 0o700);
    chmodSync(join(folder, "lease.db"), 0o602);
    expect(refusal(join(folder, "lease.db"))).toMatchObject({ code: "store_untrusted" });
  });

  test("is refused when it is a folder, or below a file", () => {
    writeFileSync(join(root, "file"), "");
    expect(refusal(root)).toMatchObject({
      code: "store_path",
      message: `store ${root} is a folder: name a file in it`,
    });
    expect(refusal(join(root, "file/lease.db"))).toMatchObject({ code: "store_path" });
  });
});
