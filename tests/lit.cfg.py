# Tests are .mlir files whose RUN lines say what must hold.
import os
import lit.formats

config.name = "altgrad"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)

path = [config.tools, config.llvm_tools, os.environ.get("PATH", "")]
config.environment["PATH"] = os.pathsep.join(path)
config.environment["FILECHECK_OPTS"] = "--enable-var-scope --dump-input-filter=error"
config.substitutions.append(("%templates", config.templates))

if os.path.isfile(config.ptxas):
    config.available_features.add("ptxas")
    strict = " --warning-as-error --warn-on-spills --warn-on-local-memory-usage"
    config.substitutions.append(("%ptxas", config.ptxas + strict))
    config.substitutions.append(("%assembler", config.ptxas))
