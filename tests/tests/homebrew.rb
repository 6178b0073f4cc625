# As much of Homebrew as the formula of coord uses: `ruby homebrew.rb FORMULA TARBALL PREFIX MACHINE` checks the tarball's sum,
# installs it below PREFIX as `brew install` does, and runs the formula's test as `brew test` does. Prints the caveats.
# A word of the formula that is not here ends it.
require "digest"
require "fileutils"
require "pathname"
require "tmpdir"

FORMULA, TARBALL, PREFIX = ARGV.first(3).map { |path| Pathname(path) }
MACHINE = { "x86_64" => :intel, "aarch64" => :arm }.fetch(ARGV.last)

class Pathname
  def install(*sources)
    mkpath
    sources.flatten.each do |source|
      pairs = source.is_a?(Hash) ? source : { source => File.basename(source) }
      pairs.each { |from, name| FileUtils.mv(from, self/name) }
    end
  end

  def install_symlink(links)
    mkpath
    links.each { |target, name| File.symlink(target, self/name) }
  end
end

class Formula
  class << self
    attr_reader :block, :sum

    def inherited(formula) = (@formula = formula)
    def formula = @formula
    def desc(text) = (raise "a description of at most 80 letters" if text.size > 80)
    def license(names) = names
    def depends_on(what) = (raise "needs #{what}" unless what == :linux)
    def on_intel = (yield if MACHINE == :intel)
    def on_arm = (yield if MACHINE == :arm)
    def version(text = nil) = text ? @version = text : @version

    def url(text)
      name = File.basename(text)
      raise "#{name} is not #{TARBALL.basename}" unless name == TARBALL.basename.to_s
    end

    def sha256(sum)
      found = Digest::SHA256.file(TARBALL).hexdigest
      raise "the sum is #{found}" unless (@sum = sum) == found
    end

    def test(&block) = (@block = block)
  end

  def version = self.class.version
  def prefix = PREFIX/"Cellar/coord"/version
  def opt_lib = PREFIX/"opt/coord/lib"
  def bin = prefix/"bin"
  def lib = prefix/"lib"
  def man1 = prefix/"share/man/man1"
  def doc = prefix/"share/doc/coord"
  def bash_completion = prefix/"etc/bash_completion.d"
  def zsh_completion = prefix/"share/zsh/site-functions"
  def fish_completion = prefix/"share/fish/vendor_completions.d"
  attr_reader :testpath

  def brew_install
    raise "no sum for this machine" unless self.class.sum
    Dir.mktmpdir do |scratch|
      system("tar", "-xzf", TARBALL.to_s, "-C", scratch, exception: true)
      Dir.chdir(Dir[File.join(scratch, "*")].first) { install }
    end
    [PREFIX/"opt", PREFIX/"bin"].each(&:mkpath)
    File.symlink(prefix, PREFIX/"opt/coord")
    bin.children.each { |program| File.symlink(program, PREFIX/"bin"/program.basename) }
  end

  def brew_test
    Dir.mktmpdir do |scratch|
      @testpath = Pathname(scratch)
      instance_exec(&self.class.block)
    end
  end

  def assert_match(expected, actual)
    fits = expected.is_a?(Regexp) ? expected.match?(actual) : actual.include?(expected)
    raise "#{actual.inspect} has no #{expected.inspect}" unless fits
  end

  def shell_output(command)
    output = `#{command}`
    raise "#{command}: #{$?}" unless $?.success?
    output
  end
end

load FORMULA.to_s
coord = Formula.formula.new
coord.brew_install
coord.brew_test
puts coord.caveats
