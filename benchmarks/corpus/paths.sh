# Sourced by every script: where the corpus lives.  Everything fetched, built or measured goes under it.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CORPUS_DIR=${CORPUS_DIR:-$here/../../target/corpus}
mkdir -p "$CORPUS_DIR"/logs
CORPUS_DIR=$(cd "$CORPUS_DIR" && pwd)
export CORPUS_DIR
