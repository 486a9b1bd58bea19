lathe_test(unit/render_c_test core view ast render)
lathe_test(golden/render_test core view ast render)
lathe_test(unit/c_device_test core view ast render runtime)
lathe_test(unit/opencl_device_test core view ast render runtime)
