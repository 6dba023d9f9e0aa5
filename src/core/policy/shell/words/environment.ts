/**
 * What the name of a variable says of the programs that get it. A project's own variables are its own affair. Those of the
 * system's programs, of package managers and of compilers decide what is run and where it comes from: of these only the
 * ones that are listed are known to do neither.
 */

const words = (text: string): ReadonlySet<string> => new Set(text.split(/\s+/))

/** Variables that make a harmless command run something else. */
const steering = words(
  `LD_PRELOAD LD_AUDIT DYLD_INSERT_LIBRARIES BASH_ENV ENV SHELLOPTS PS0 PS1 PS4 BASHOPTS PROMPT_COMMAND CDPATH GIT_SSH
  GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_ASKPASS SSH_ASKPASS GIT_EXEC_PATH GIT_PROXY_COMMAND PYTHONSTARTUP PERL5OPT PERL5DB
  RUBYOPT JAVA_TOOL_OPTIONS _JAVA_OPTIONS BASH_FUNC LESSOPEN LESSCLOSE TAR_OPTIONS CURL_HOME WGETRC SHELL MAKEFLAGS
  MAKEFILES RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER GOFLAGS GOPROXY GONOSUMDB GIT_DIR GIT_WORK_TREE GOPRIVATE
  RIPGREP_CONFIG_PATH GREP_OPTIONS PYTHONHOME PYTHONINSPECT PERL5LIB GLOBIGNORE GIT_TEMPLATE_DIR LD_LIBRARY_PATH
  NODE_EXTRA_CA_CERTS EXINIT VIMINIT HOME FIGNORE EXECIGNORE POSIXLY_CORRECT INPUTRC BASH_ALIASES BASH_CMDS
  DIRSTACK TAPE LESSEDIT HOSTALIASES RES_OPTIONS LOCALDOMAIN UNZIP UNZIPOPT ZIPINFO ZIPOPT`,
)

/** Programs that have variables of their own: what stands before the first line. */
const families = words(
  `YARN PNPM PIP PIPX UV CARGO BUNDLE GEM COREPACK POETRY CONDA COMPOSER TWINE PG PSQL MYSQL ANSIBLE KUBE HELM GIT SSH GNUPG
  GPG CURL WGET LESS MORE MAN GROFF TAR RSYNC LD DYLD GLIBC PERL RUBY PYTHON NODE LUA PHP JAVA JDK MAVEN MVN GRADLE ANT SBT
  RUST RUSTUP CGO GCC CCACHE SCCACHE DISTCC BUN DENO PUB FLUTTER DART OPAM CORECLR MSBUILD HATCH KOTLIN COMPILER COLLECT VIM NVIM EMACS FZF BAT RIPGREP XDG SSL OPENSSL DOTNET NUGET ERL ELIXIR MIX HEX JULIA R`,
)
/** Of these, too, but without a line between. */
const places = words(
  `LOCPATH NLSPATH TERMINFO MANPATH INFOPATH AWKPATH AWKLIBPATH CLASSPATH GOROOT GOPATH GOENV KUBECONFIG PHPRC GEMRC
  VIMRUNTIME PSQLRC PGHOST PGHOSTADDR PGSERVICE PGSERVICEFILE PGSYSCONFDIR PGPASSFILE PGOPTIONS GCONV_PATH RUBYLIB HISTFILE
  MAILPATH LESSKEY LESSKEYIN LESSGLOBALTAGS PYTHONPLATLIBDIR IRBRC PRYRC GOCACHEPROG GHC_PACKAGE_PATH OCAMLPATH PYTHONUSERBASE PYTHONEXECUTABLE PYTHONBREAKPOINT GOSUMDB GONOPROXY GOINSECURE GOVCS GOTOOLDIR GOAUTH`,
)

/** Of these programs, what only changes how they work or what they show. */
const harmless = words(
  `NODE_ENV NODE_DEBUG NODE_NO_WARNINGS NODE_PATH NODE_DISABLE_COLORS NODE_TEST_CONTEXT NODE_V8_COVERAGE
  NODE_PENDING_DEPRECATION RUST_BACKTRACE RUST_LOG RUST_MIN_STACK RUST_TEST_THREADS RUST_LIB_BACKTRACE RUST_TEST_NOCAPTURE
  CARGO_INCREMENTAL CARGO_TARGET_DIR CARGO_NET_OFFLINE CARGO_BUILD_JOBS CARGO_NET_RETRY CARGO_LOG CGO_ENABLED
  GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE
  GIT_TERMINAL_PROMPT GIT_MERGE_AUTOEDIT GIT_OPTIONAL_LOCKS GIT_LFS_SKIP_SMUDGE GIT_DISCOVERY_ACROSS_FILESYSTEM
  GIT_CURL_VERBOSE GIT_LITERAL_PATHSPECS MYSQL_PWD MYSQL_DATABASE MYSQL_USER MYSQL_PASSWORD
  NPM_CONFIG_LOGLEVEL NPM_CONFIG_YES NPM_CONFIG_FUND NPM_CONFIG_AUDIT NPM_CONFIG_PROGRESS NPM_CONFIG_COLOR
  NPM_CONFIG_LEGACY_PEER_DEPS NPM_CONFIG_UPDATE_NOTIFIER NPM_CONFIG_PREFER_OFFLINE NPM_CONFIG_OFFLINE
  NPM_CONFIG_IGNORE_SCRIPTS NPM_CONFIG_PRODUCTION PIP_NO_INPUT PIP_DISABLE_PIP_VERSION_CHECK PIP_NO_CACHE_DIR
  PIP_BREAK_SYSTEM_PACKAGES PIP_DEFAULT_TIMEOUT PIP_QUIET PIP_VERBOSE PIP_ROOT_USER_ACTION PIP_PREFER_BINARY PIP_RETRIES
  PIP_REQUIRE_VIRTUALENV UV_LINK_MODE UV_OFFLINE UV_FROZEN UV_LOCKED UV_NO_SYNC UV_NO_PROGRESS UV_HTTP_TIMEOUT
  UV_SYSTEM_PYTHON UV_NO_CACHE UV_PYTHON_PREFERENCE UV_PROJECT_ENVIRONMENT POETRY_NO_INTERACTION BUNDLE_WITHOUT BUNDLE_WITH
  BUNDLE_JOBS BUNDLE_RETRY BUNDLE_FROZEN BUNDLE_DEPLOYMENT BUNDLE_SILENCE_ROOT_WARNING COMPOSER_MEMORY_LIMIT
  COMPOSER_NO_INTERACTION COMPOSER_ALLOW_SUPERUSER COMPOSER_PROCESS_TIMEOUT COMPOSER_NO_DEV ANSIBLE_NOCOLOR
  ANSIBLE_FORCE_COLOR DOTNET_CLI_TELEMETRY_OPTOUT DOTNET_NOLOGO DOTNET_SKIP_FIRST_TIME_EXPERIENCE
  DOTNET_SYSTEM_GLOBALIZATION_INVARIANT MIX_ENV MIX_TARGET PERL_UNICODE PERL_HASH_SEED MAN_KEEP_FORMATTING XDG_RUNTIME_DIR
  GCC_COLORS CCACHE_DISABLE BUN_ENV DENO_ENV DENO_NO_UPDATE_CHECK DENO_NO_PROMPT DART_DEFINES FLUTTER_SUPPRESS_ANALYTICS KOTLIN_COMPILER_EXECUTION_STRATEGY
  PHP_CS_FIXER_IGNORE_ENV PHP_IDE_CONFIG`,
)
const harmlessKinds =
  /^(?:CARGO_(?:TERM|PROFILE)|UV_CONCURRENT|(?:YARN|COREPACK)_ENABLE|POETRY_VIRTUALENVS|RUBY_GC)_/

/** Values that are options of the program itself; some of these bring code. */
const optionLists = words(
  `NODE_OPTIONS LESS MORE MANOPT GZIP XZ_OPT XZ_DEFAULTS MAVEN_OPTS GRADLE_OPTS SBT_OPTS ANT_OPTS JAVA_OPTS
  JDK_JAVA_OPTIONS ERL_FLAGS ELIXIR_ERL_OPTIONS BAT_OPTS FZF_DEFAULT_OPTS RUSTFLAGS RUSTDOCFLAGS CGO_CFLAGS CGO_CPPFLAGS
  CGO_CXXFLAGS CGO_LDFLAGS PYTEST_ADDOPTS CFLAGS CPPFLAGS CXXFLAGS LDFLAGS FFLAGS FCFLAGS OBJCFLAGS ASFLAGS ARFLAGS`,
)
const bringsCode =
  /(?:^|\s)(?:@|-[rpP]|--env-file|-C\s{0,4}link|-B|--(?:require|import|loader|experimental-loader|eval|config|init))|javaagent|agentlib|agentpath|OnError|OnOutOfMemory|linker|wrapper|plugin|extld|toolexec|-specs|[!|`+]|\$\(|-(?:eval|run|s|m)\b/i

/** Programs that others start. */
const programs = words(
  `CC CXX CPP PKG_CONFIG CHROME_BIN CCACHE_PREFIX LD AR AS NM FC F77 RANLIB STRIP OBJCOPY RUSTC RUSTDOC RUSTFMT LINKER MAKE JAVACMD PYTHON NODE NPM AWK SED YACC LEX`,
)
const programKinds = words(
  'WRAPPER PREFIX_COMMAND RUNNER LINKER COMPILER LAUNCHER COMMAND CMD PROGRAM EXECUTABLE SHELL EDITOR BROWSER VISUAL HOOK ASKPASS',
)
const plainPrograms = words(
  `cat true : less more echo none /bin/true /usr/bin/true /bin/cat /usr/bin/cat /bin/sh /bin/bash /usr/bin/bash gcc g++ cc c++
  pkg-config pkgconf clang clang++ ld lld mold ar nm ranlib strip rustc python python3 node npm pnpm yarn make chrome chromium firefox webkit
  google-chrome electron`,
)
const isPlainProgram = (text: string): boolean =>
  text === '' || plainPrograms.has(text.replace(/^s?ccache /, '').replace(/-\d{1,2}$/, ''))

/** Where packages fetch a program of theirs from, and which one they take. */
const bringsFrom =
  /(?:^|_)(?:MIRROR|REGISTRY|CDNURL|INSTALL_BINARY|RUN_BINARY|(?:BINARY|BIN|ENGINE)_(?:PATH|HOST|SITE|URL|DIR)|ENGINES?_(?:LIBRARY|BINARY)|DIST_BASE_URL|EXECUTABLE_PATH|DOWNLOAD_(?:URL|HOST|BASE_URL)|DOWNLOAD_BASE_URL)$/

/** Where a tool was installed by the system, and where nothing is. */
const installed = /^(?:\/dev\/null|\/(?:usr|opt|bin|snap|nix)\/[\w./+-]{1,200})$/

/** Whether a value that is not known could decide what runs. */
export const steers = (name: string): boolean =>
  name === 'PATH' || name === 'IFS' || environmentWhy(name, null) !== null

/** Why a variable may make its program do something else; null if it is known that it does not. value: null is not known. */
export function environmentWhy(name: string, value: string | null): string | null {
  const decides = `"${name}" decides what other programs run`
  const text = value ?? unknown
  if (name === 'SHELL' && /^\/(?:usr\/)?bin\/(?:ba)?sh$/.test(text)) return null
  if (steering.has(name) || name.startsWith('GIT_CONFIG')) return decides
  // Package managers and proxies take small letters, too.
  const upper = name.toUpperCase()
  if (/^(?:HTTPS?|FTP|ALL)_PROXY$/.test(upper))
    return text === '' ? null : `"${name}" sends requests somewhere else`
  const last = upper.slice(upper.lastIndexOf('_') + 1)
  if (programs.has(name) || programKinds.has(last) || upper.endsWith('PAGER'))
    return isPlainProgram(text) ? null : decides
  if (bringsFrom.test(upper) && !isPlainProgram(text))
    return `"${name}" decides what is fetched or run`
  if (optionLists.has(upper))
    return text.includes(unknown) || bringsCode.test(text) ? decides : null
  if (!isOfProgram(upper) || harmless.has(upper) || harmlessKinds.test(upper)) return null
  if (last === 'HOME' && installed.test(text)) return null
  if (/HOST(?:ADDR)?$/.test(upper) && /^(?:localhost|127\.0\.0\.1|::1)$/.test(text)) return null
  return `"${name}" decides where its program looks, or what it runs`
}

const unknown = '\u0000'

function isOfProgram(upper: string): boolean {
  if (places.has(upper) || upper.startsWith('NPM_CONFIG_')) return true
  const at = upper.indexOf('_')
  return at > 0 && families.has(upper.slice(0, at))
}
