# Embeds the kernels below src/cuda/kernels into the core: a generated source defines kernel_sources() of
# src/cuda/runtime/kernel_sources.hpp. A kernel includes another by its path from that folder.
# Included, this file defines the function; the build runs it again, as a script, to write the source.

function(tconv3d_embed_kernels target)
    set(folder ${PROJECT_SOURCE_DIR}/src/cuda/kernels)
    set(generated ${PROJECT_BINARY_DIR}/generated/kernel_sources.cpp)
    file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${folder}/*.cuh)
    add_custom_command(OUTPUT ${generated}
        COMMAND ${CMAKE_COMMAND} -DKERNELS=${folder} -DGENERATED=${generated} -P ${CMAKE_CURRENT_FUNCTION_LIST_FILE}
        DEPENDS ${kernels} ${CMAKE_CURRENT_FUNCTION_LIST_FILE}
        COMMENT "Embedding the kernels" VERBATIM)
    target_sources(${target} PRIVATE ${generated})
endfunction()

# Each file is one raw string literal, of which compilers need not take more than 64 KiB.
function(tconv3d_write_kernel_sources folder generated)
    set(table "")
    file(GLOB_RECURSE kernels RELATIVE ${folder} ${folder}/*.cuh)
    list(SORT kernels)
    foreach(name IN LISTS kernels)
        file(READ ${folder}/${name} text)
        if(NOT text MATCHES "\n$")
            message(FATAL_ERROR "${folder}/${name} must end with a newline")
        endif()
        string(LENGTH "${text}" length)
        if(length GREATER 60000)
            message(FATAL_ERROR "${folder}/${name} has ${length} bytes, too many for a string literal: divide it")
        endif()
        string(APPEND table "        {\"${name}\", R\"kernel(${text})kernel\"},\n")
    endforeach()
    file(WRITE ${generated} "#include \"cuda/runtime/kernel_sources.hpp\"

#include \"core/lasting.hpp\"

namespace tconv3d::cuda {

const std::vector<SourceFile>& kernel_sources() {
    static const Lasting<std::vector<SourceFile>> sources(std::vector<SourceFile>{
${table}    });
    return *sources;
}

} // namespace tconv3d::cuda
")
endfunction()

if(CMAKE_SCRIPT_MODE_FILE)
    tconv3d_write_kernel_sources(${KERNELS} ${GENERATED})
endif()
