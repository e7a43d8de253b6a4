# Finds the PyTorch of a Python interpreter and makes the target tconv3d_pytorch of its headers and libraries.
#
# Not find_package(Torch): that demands a CUDA toolkit when PyTorch was built for CUDA, and these operators need none.
#
# Which Python that is, cmake/pytorch.py says: TCONV3D_PYTHON, else the one that runs the build, or the active one.

function(tconv3d_find_pytorch)
    set(environment "")
    if(TCONV3D_PYTHON)
        set(python ${TCONV3D_PYTHON})
        set(environment TCONV3D_PYTHON=${TCONV3D_PYTHON})
    else()
        find_package(Python 3.9 REQUIRED COMPONENTS Interpreter)
        set(python ${Python_EXECUTABLE})
    endif()
    execute_process(COMMAND ${CMAKE_COMMAND} -E env ${environment} ${python} ${PROJECT_SOURCE_DIR}/cmake/pytorch.py
        OUTPUT_VARIABLE answer ERROR_VARIABLE error RESULT_VARIABLE status)
    if(NOT status EQUAL 0)
        message(FATAL_ERROR "${error}")
    endif()
    list(GET answer 0 python)
    list(GET answer 1 root)
    list(GET answer 2 version)
    list(GET answer 3 cxx11_abi)
    message(STATUS "PyTorch ${version} of ${python}: ${root}")
    set(PYTORCH_ROOT "${root}" PARENT_SCOPE)
    set(PYTORCH_VERSION "${version}" PARENT_SCOPE)
    set(PYTORCH_CXX11_ABI "${cxx11_abi}" PARENT_SCOPE)
endfunction()

tconv3d_find_pytorch()

# Strings cross between the core and PyTorch, so every object of this build follows PyTorch's choice.
add_compile_definitions(_GLIBCXX_USE_CXX11_ABI=${PYTORCH_CXX11_ABI})

add_library(tconv3d_pytorch INTERFACE)
target_include_directories(tconv3d_pytorch SYSTEM INTERFACE
    ${PYTORCH_ROOT}/include ${PYTORCH_ROOT}/include/torch/csrc/api/include)
foreach(library IN ITEMS torch torch_cpu c10)
    set(file ${PYTORCH_ROOT}/lib/lib${library}${CMAKE_SHARED_LIBRARY_SUFFIX})
    if(NOT EXISTS ${file})
        message(FATAL_ERROR "PyTorch ${PYTORCH_VERSION} lacks ${file}")
    endif()
    target_link_libraries(tconv3d_pytorch INTERFACE ${file})
endforeach()
