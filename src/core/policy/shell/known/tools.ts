import { readKnownTable } from './table.ts'

/**
 * Tools that build, test and check the project. All of them run its code or its settings, which an agent may write anyway:
 * what counts is that the program is one of them. Options that bring code, hosts or programs from elsewhere are found by
 * tool-options.ts.
 */
export const tools =
  readKnownTable(`*make gmake ninja cmake ctest meson bazel bazelisk buck2 just task mage rake gradle gradlew mvn mvnw ant sbt lein scons autoconf automake configure premake xmake tup waf invoke nox tox
*npm npx pnpx bunx pnpm yarn bun node nodejs tsx ts-node ts-node-esm deno corepack turbo nx lerna rush lage wireit moon changeset
*tsc tsgo tsup vite vitest jest mocha ava tap c8 nyc karma jasmine playwright cypress storybook start-storybook webpack webpack-cli rollup esbuild parcel swc babel rspack rsbuild next nuxt astro svelte-kit svelte-check vue-tsc vue-cli-service react-scripts remix gatsby expo ng nest knip depcheck madge size-limit
*eslint prettier biome oxlint oxfmt dprint stylelint standard xo rome markdownlint markdownlint-cli2 cspell commitlint lint-staged husky publint attw api-extractor typedoc jsdoc tailwindcss postcss sass lessc prisma drizzle-kit knex typeorm sequelize graphql-codegen openapi-typescript orval buf protoc http-server serve nodemon pm2 concurrently npm-run-all run-s run-p ncu license-checker
*python python2 python3 pypy pypy3 pip pip3 pipx poetry pdm uv uvx hatch rye pipenv conda mamba virtualenv pytest py.test unittest mypy pyright basedpyright ruff black isort flake8 pylint bandit pydocstyle autopep8 yapf coverage sphinx-build mkdocs twine build django-admin manage.py flask uvicorn gunicorn hypercorn celery alembic jupyter ipython pre-commit cython numba maturin setup.py pyre vulture interrogate safety pip-audit pip-compile pip-sync
*cargo rustc rustfmt rustup clippy-driver cross wasm-pack trunk bindgen cbindgen miri
*go gofmt goimports golangci-lint staticcheck dlv gotestsum mockgen ginkgo air templ sqlc wire govulncheck gopls
*java javac jar kotlinc kotlin scala scalac groovy checkstyle spotless ktlint detekt jshell javap
*gcc g++ cc c++ clang clang++ clang-format clang-tidy cppcheck ld ar nm objdump readelf strip ranlib ldd cpp as pkg-config pkgconf gcov lcov gcovr ccache sccache emcc zig size addr2line c++filt
*ruby gem bundle bundler rspec rubocop rails rackup irb sorbet srb minitest standardrb brakeman
*php composer phpunit phpstan psalm phpcs phpcbf php-cs-fixer pest artisan pint rector
*dotnet msbuild nuget fsharpc csc mcs
*swift swiftc xcodebuild swiftlint swiftformat pod fastlane
*elixir mix iex erl rebar3 ghc ghci cabal stack hlint ormolu ocaml dune opam lua luajit luarocks luacheck stylua perl prove perlcritic perltidy cpanm R Rscript julia dart flutter pub nim nimble crystal shards v clojure clj elm gleam roc
*shellcheck shfmt bats bash sh dash zsh ksh hadolint actionlint yamllint ansible-lint tflint taplo checkov trivy semgrep gitleaks jsonlint ajv vale codespell typos write-good lychee editorconfig-checker ec
*sqlite3 psql mysql mariadb redis-cli mongosh createdb sqlfluff
*wrangler opencode workerd miniflare
*dot mmdc plantuml convert magick identify ffmpeg ffprobe optipng pngquant cwebp svgo
*time timeout xargs nice nohup env command exec builtin eval source .
`)
