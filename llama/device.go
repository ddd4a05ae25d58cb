package llama

// DeviceKind is ggml_backend_dev_type.
type DeviceKind int32

const (
	DeviceCPU   DeviceKind = 0
	DeviceGPU   DeviceKind = 1
	DeviceIGPU  DeviceKind = 2 // integrated, uses the memory of the host
	DeviceAccel DeviceKind = 3 // works beside the CPU, as BLAS does
	DeviceMeta  DeviceKind = 4 // several devices as one
)

// String gives the lower-case name.
func (k DeviceKind) String() string {
	switch k {
	case DeviceCPU:
		return "cpu"
	case DeviceGPU:
		return "gpu"
	case DeviceIGPU:
		return "igpu"
	case DeviceAccel:
		return "accel"
	case DeviceMeta:
		return "meta"
	}
	return "unknown"
}

// Device is something that libllama can compute on. Memory is in bytes at the
// time of the call to Devices.
type Device struct {
	Name        string
	Description string
	Kind        DeviceKind
	MemFree     uint64
	MemTotal    uint64

	handle uintptr
}

var (
	// size_t ggml_backend_dev_count(void);
	cDevCount func() uint64
	// ggml_backend_dev_t ggml_backend_dev_get(size_t index);
	cDevGet func(i uint64) uintptr
	// const char * ggml_backend_dev_name(ggml_backend_dev_t device);
	cDevName func(dev uintptr) string
	// const char * ggml_backend_dev_description(ggml_backend_dev_t device);
	cDevDescription func(dev uintptr) string
	// void ggml_backend_dev_memory(ggml_backend_dev_t device, size_t * free, size_t * total);
	cDevMemory func(dev uintptr, free, total *uint64)
	// enum ggml_backend_dev_type ggml_backend_dev_type(ggml_backend_dev_t device);
	cDevType func(dev uintptr) int32
	// ggml_backend_reg_t ggml_backend_dev_backend_reg(ggml_backend_dev_t device);
	cDevReg func(dev uintptr) uintptr
	// size_t ggml_backend_reg_count(void);
	cRegCount func() uint64
	// ggml_backend_reg_t ggml_backend_reg_get(size_t index);
	cRegGet func(i uint64) uintptr
	// const char * ggml_backend_reg_name(ggml_backend_reg_t reg);
	cRegName func(reg uintptr) string
	// void * ggml_backend_reg_get_proc_address(ggml_backend_reg_t reg, const char * name);
	cRegProc func(reg uintptr, name string) uintptr
)

var deviceBinds = []bind{
	{libGGML, "ggml_backend_dev_count", &cDevCount},
	{libGGML, "ggml_backend_dev_get", &cDevGet},
	{libBase, "ggml_backend_dev_name", &cDevName},
	{libBase, "ggml_backend_dev_description", &cDevDescription},
	{libBase, "ggml_backend_dev_memory", &cDevMemory},
	{libBase, "ggml_backend_dev_type", &cDevType},
	{libBase, "ggml_backend_dev_backend_reg", &cDevReg},
	{libGGML, "ggml_backend_reg_count", &cRegCount},
	{libGGML, "ggml_backend_reg_get", &cRegGet},
	{libBase, "ggml_backend_reg_name", &cRegName},
	{libBase, "ggml_backend_reg_get_proc_address", &cRegProc},
}

// Devices lists the devices of the loaded backends; nil before Load.
func Devices() []Device {
	if !loaded() {
		return nil
	}
	return devices()
}

func devices() []Device {
	var list []Device
	for i := range cDevCount() {
		h := cDevGet(i)
		if h == 0 {
			continue
		}
		d := Device{Name: cDevName(h), Description: cDevDescription(h), Kind: DeviceKind(cDevType(h)), handle: h}
		cDevMemory(h, &d.MemFree, &d.MemTotal)
		list = append(list, d)
	}
	return list
}

// Backends are the names of the parts of the library that were loaded, as in
// "CPU" and "Vulkan", also of those that have found no device; nil before Load.
func Backends() []string {
	if !loaded() {
		return nil
	}
	var list []string
	for i := range cRegCount() {
		if h := cRegGet(i); h != 0 {
			list = append(list, cRegName(h))
		}
	}
	return list
}
