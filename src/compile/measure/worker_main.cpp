// lathe-measure: compiles, runs and times candidates for a search in another process, so that one which
// crashes or never ends takes nothing else with it. Started by the library, with a socket as descriptor 3.
#include "compile/measure/worker_protocol.hpp"

int main() { return lathe::pipeline::run_measuring_worker(3); }
