# bash -c … layout.sh HOME POM: arranges OpenSearch's jars from Maven Central as a server's home. Needs Maven and Python.
set -euo pipefail
home=$1 pom=$2
version=$(sed -n 's/.*<os>\(.*\)<\/os>.*/\1/p' "$pom")
mkdir -p "$home"/{bin,config,lib,modules,plugins}
mvn -q -B -f "$pom" dependency:copy-dependencies -DoutputDirectory="$home/lib"

# module NAME CLASS EXTENDS JAR-GLOB…: moves jars out of lib/, and writes the two files that published jars lack.
module() {
    local name=$1 class=$2 extends=$3 folder="$home/modules/$1" glob
    shift 3
    mkdir -p "$folder"
    for glob in "$@"; do mv "$home"/lib/$glob "$folder"/; done
    cat >"$folder/plugin-descriptor.properties" <<END
name=$name
description=$name
version=$version
opensearch.version=$version
java.version=11
classname=$class
extended.plugins=$extends
has.native.controller=false
END
    echo 'grant { permission java.security.AllPermission; };' >"$folder/plugin-security.policy"
}
p=org.opensearch
module transport-netty4 $p.transport.Netty4Plugin "" 'transport-netty4-client-*.jar' 'netty-*.jar'
module lang-painless $p.painless.PainlessPlugin "" \
    'lang-painless-*.jar' 'opensearch-scripting-painless-spi-*.jar' 'antlr4-runtime-*.jar' 'asm-*.jar'
module analysis-common $p.analysis.common.CommonAnalysisPlugin lang-painless 'analysis-common-*.jar'
module reindex $p.index.reindex.ReindexPlugin "" 'reindex-client-*.jar' 'opensearch-rest-client-*.jar' \
    'opensearch-ssl-config-*.jar' 'http*.jar' 'commons-codec-*.jar' 'commons-logging-*.jar'
module mapper-extras $p.index.mapper.MapperExtrasPlugin "" 'mapper-extras-client-*.jar'

mkdir "$home/plugins/opensearch-knn"
python3 -m zipfile -e "$home"/lib/opensearch-knn-*.zip "$home/plugins/opensearch-knn"
rm "$home"/lib/opensearch-knn-*.zip
chmod -R a+rX "$home"
