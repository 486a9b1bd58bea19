# Lowering, the runtime's base and the pipeline.
lathe_test(unit/lower_test core view graph ast lower)
lathe_test(unit/memory_plan_test core view graph ast lower)
lathe_test(unit/runtime_test)
lathe_test(unit/compile_test)
lathe_test(unit/object_cache_test)
lathe_test(unit/measure_test)
lathe_test(property/threads_test)
