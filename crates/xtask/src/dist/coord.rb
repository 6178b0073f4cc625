class Coord < Formula
  desc "Coordinator for running Claude Code sessions"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on :linux

@TARBALLS@
  def install
    bin.install "bin/coord"
    bin.install_symlink "coord" => "coordctl"
    (lib/"coord").install Dir["lib/coord/*"]
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "share/completions/coord.bash" => "coord"
    bash_completion.install "share/completions/coordctl.bash" => "coordctl"
    zsh_completion.install "share/completions/_coord", "share/completions/_coordctl"
    fish_completion.install "share/completions/coord.fish", "share/completions/coordctl.fish"
    doc.install "README.md", "CHANGELOG.md", "SECURITY.md", "docs"
  end

  def caveats
    <<~TEXT
      Register the hooks in Claude Code's settings, and run this again after an upgrade:
        coord install --hooks-dir #{opt_lib}/coord
      Before you uninstall the formula:
        coord uninstall
    TEXT
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/coord --version")
    assert_match "No sessions", shell_output("#{bin}/coord --root #{testpath}/coord inspect")
  end
end
