# bash -c … build.sh FILE: builds the Weaviate server with the Go client. The first build takes about five minutes.
set -euo pipefail
out=$1
module=github.com/weaviate/weaviate@v1.35.2
sum=h1:D/cB4Lz8BIhE8s6cMUa4dRhlz356r1LRqDLgr5pKhPA=
# As upstream builds it: one static file, no other Go version, no cross build.
export CGO_ENABLED=0 GOTOOLCHAIN=local GOWORK=off GO111MODULE=on GOOS= GOARCH= GOFLAGS="-buildvcs=false -trimpath"

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
cd "$temporary"
found=$(go mod download -json "$module" | sed -n 's/^\t"Sum": "\(.*\)",*$/\1/p')
[ "$found" = "$sum" ] || { echo "$module has the sum '$found', not $sum" >&2; exit 1; }
GOBIN=$temporary/bin nice -n 10 go install -ldflags '-s -w' "${module%@*}/cmd/weaviate-server@${module#*@}"
mv "$temporary/bin/weaviate-server" "$out"
chmod a+rx "$out"
