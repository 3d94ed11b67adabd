/** The Homebrew formula of a release, with the digests of its archives. */

import manifest from "../../package.json" with { type: "json" };

export function formula(version: string, digests: ReadonlyMap<string, string>): string {
  const source = (name: string): string => {
    const file = `lease-${version}-${name}.tar.gz`;
    const digest = digests.get(file);
    if (digest === undefined) throw new Error(`the formula needs ${file}`);
    return `url "${manifest.homepage}/releases/download/v${version}/${file}"\n      sha256 "${digest}"`;
  };
  return `class Lease < Formula
  desc "Durable queue for shell jobs in one executable"
  homepage "${manifest.homepage}"
  version "${version}"
  license "${manifest.license}"

  on_macos do
    on_arm do
      ${source("darwin-arm64")}
    end
    on_intel do
      ${source("darwin-x64")}
    end
  end

  on_linux do
    on_arm do
      ${source("linux-arm64")}
    end
    on_intel do
      ${source("linux-x64")}
    end
  end

  def install
    bin.install "lease"
    man1.install "share/man/man1/lease.1"
    bash_completion.install "share/bash-completion/completions/lease"
    zsh_completion.install "share/zsh/site-functions/_lease"
    fish_completion.install "share/fish/vendor_completions.d/lease.fish"
  end

  def caveats
    "lease on macOS is a preview: see ${manifest.homepage}/blob/main/docs/install.md#systems" if OS.mac?
  end

  test do
    ENV["LEASE_STORE"] = (testpath/"lease.db").to_s
    assert_equal "hello", shell_output("#{bin}/lease run -- echo hello").chomp
  end
end
`;
}
