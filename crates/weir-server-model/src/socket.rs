// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All parts of the machine together: each signal goes to the part it is for.

use crate::cpu::{CpuCore, CpuCount, CpuMeter, PrivateCaches, Program, Thread};
use crate::engine::calendar::{Calendar, Signal};
use crate::engine::clockwork::Clockwork;
use crate::engine::request::{NO_CPU, RequestPool};
use crate::machine::timings::{Timings, picos};
use crate::machine::workload::{PageHome, Pattern, Workload};
use crate::machine::{Machine, Workloads};
use crate::memory::pages::{PageTable, device_of, virtual_line};
use crate::memory::route::Route;
use crate::scenario::what_if::Progress;
use crate::truth::{GroundTruth, RowNames, TruthReader, TruthWindow};
use crate::uncore::{Cha, Channel, DmaAgent, Onward, Port, Upi};
use crate::words::{Path, Stage, Target};
use weir_description::DescriptionError;
use weir_hw::memory_device::Profile;

/// A page move that is to come.
struct PlannedMove {
    areas: Vec<usize>,
    from_part: f64,
    to_part: f64,
    to: PageHome,
}

pub(crate) struct Socket {
    pub work: Clockwork,
    route: Route,
    cores: Vec<Option<CpuCore>>,
    pub chas: Vec<Cha>,
    pub channels: Vec<Channel>,
    pub upi: Upi,
    pub ports: Vec<Port>,
    agents: Vec<DmaAgent>,
    /// Agent of each workload.
    agent_of: Vec<Option<u32>>,
    moves: Vec<PlannedMove>,
    names: Vec<String>,
    /// Workload of each CPU.
    owners: Vec<Option<u8>>,
    /// Areas that programs visit at random, with their owners.
    warm_areas: Vec<(usize, u8)>,
}

impl Socket {
    pub fn new(
        machine: &Machine,
        workloads: &Workloads,
        seed: u64,
    ) -> Result<Socket, DescriptionError> {
        let timings = Timings::of(machine).map_err(|(key, value)| DescriptionError::Value {
            origin: machine.name.clone(),
            key,
            value,
            allowed: "longer than the way it contains".to_owned(),
        })?;
        let count = workloads.workload.len();
        let route = Route::new(machine);
        let mut socket = Socket {
            work: Clockwork {
                now: 0,
                calendar: Calendar::new(),
                requests: RequestPool::default(),
                meters: (0..machine.cpus())
                    .map(|cpu| CpuMeter::new(cpu as u16))
                    .collect(),
                truth: GroundTruth::new(count, machine.cpus() as usize),
                pages: PageTable::new(&machine.device),
                timings,
                begun: 0,
                finished: 0,
            },
            route,
            cores: (0..machine.cores.count).map(|_| None).collect(),
            chas: Vec::new(),
            channels: Vec::new(),
            upi: Upi::new(machine, count, seed),
            ports: Vec::new(),
            agents: Vec::new(),
            agent_of: vec![None; count],
            moves: Vec::new(),
            names: workloads.names(),
            owners: vec![None; machine.cpus() as usize],
            warm_areas: Vec::new(),
        };
        socket.add_uncore(machine, workloads, seed)?;
        for (owner, workload) in workloads.workload.iter().enumerate() {
            socket.add_workload(machine, workloads, owner as u8, workload, seed);
        }
        Ok(socket)
    }

    fn add_uncore(
        &mut self,
        machine: &Machine,
        workloads: &Workloads,
        seed: u64,
    ) -> Result<(), DescriptionError> {
        let count = workloads.workload.len();
        let masks = workloads
            .workload
            .iter()
            .map(|w| w.llc_ways.unwrap_or(u32::MAX));
        let masks: Vec<u32> = masks.collect();
        for _ in 0..machine.cha.count {
            self.chas
                .push(Cha::new(&machine.cha, masks.clone(), self.route));
        }
        for number in 0..machine.dram.channels {
            self.channels
                .push(Channel::new(number, &machine.dram, count));
        }
        for (number, figures) in machine.device.iter().enumerate() {
            let profile =
                Profile::named(&figures.profile).map_err(|error| DescriptionError::Value {
                    origin: machine.name.clone(),
                    key: format!("device[{number}].profile"),
                    value: figures.profile.clone(),
                    allowed: error.to_string(),
                })?;
            self.ports
                .push(Port::new(number as u32, figures, &profile, count, seed));
        }
        Ok(())
    }

    /// CPUs, areas, page moves and the DMA agent of a workload.
    fn add_workload(
        &mut self,
        machine: &Machine,
        workloads: &Workloads,
        owner: u8,
        workload: &Workload,
        seed: u64,
    ) {
        let start = picos(workload.start_us * 1000.0);
        let mut areas_by_cpu = Vec::new();
        let homes: &[u16] = if workload.cpus.is_empty() {
            &[NO_CPU]
        } else {
            &workload.cpus
        };
        for &cpu in homes {
            let pages = &mut self.work.pages;
            let areas = workload.area.iter().map(|area| pages.add(area, owner, cpu));
            let areas: Vec<usize> = areas.collect();
            if cpu != NO_CPU {
                self.add_thread(machine, workloads, owner, cpu, &areas, seed);
            }
            areas_by_cpu.push(areas);
        }
        let area_number = |name: &str| workload.area.iter().position(|area| area.name == name);
        for page_move in &workload.page_move {
            let area = area_number(&page_move.area).unwrap_or(0);
            let number = self.moves.len() as u32;
            self.moves.push(PlannedMove {
                areas: areas_by_cpu.iter().map(|areas| areas[area]).collect(),
                from_part: page_move.from_part,
                to_part: page_move.to_part,
                to: page_move.to,
            });
            let at = picos(page_move.at_us * 1000.0);
            self.work.calendar.post(at, Signal::PageMove { number });
        }
        if let Some(dma) = &workload.dma {
            let number = self.agents.len() as u32;
            let area = areas_by_cpu[0][area_number(&dma.area).unwrap_or(0)];
            let end = workload.end_us.map_or(u64::MAX, |us| picos(us * 1000.0));
            self.agents
                .push(DmaAgent::new(number, area, dma, (start, end), self.route));
            self.agent_of[usize::from(owner)] = Some(number);
            self.work
                .calendar
                .post(start, Signal::Dma { agent: number });
        }
    }

    fn add_thread(
        &mut self,
        machine: &Machine,
        workloads: &Workloads,
        owner: u8,
        cpu: u16,
        areas: &[usize],
        seed: u64,
    ) {
        let workload = &workloads.workload[usize::from(owner)];
        let core = self.route.core(cpu);
        let all_cpus = workloads.workload.iter().flat_map(|w| &w.cpus);
        let share = all_cpus
            .filter(|c| self.route.core(**c) == core)
            .count()
            .max(1);
        let program = Program::new(workload, areas, &self.work.pages, cpu, seed);
        let start = picos(workload.start_us * 1000.0);
        let thread = Thread::new(cpu, program, &machine.cores, share as u32, start);
        self.work.calendar.post(
            thread.start(),
            Signal::Run {
                cpu: u32::from(cpu),
            },
        );
        let count = self.names.len();
        let place = &mut self.cores[core];
        let core = place.get_or_insert_with(|| CpuCore {
            threads: Vec::new(),
            caches: PrivateCaches::new(machine, count, self.route),
        });
        core.threads.push(thread);
        self.owners[usize::from(cpu)] = Some(owner);
        for mix in workload.phase.iter().flat_map(|phase| &phase.mix) {
            let area = workload.area.iter().position(|area| area.name == mix.area);
            let area = areas[area.unwrap_or(0)];
            if mix.pattern != Pattern::Stream && !self.warm_areas.contains(&(area, owner)) {
                self.warm_areas.push((area, owner));
            }
        }
    }

    pub fn cpu_numbers(&self) -> Vec<u16> {
        let cpus = self
            .owners
            .iter()
            .enumerate()
            .filter(|(_, owner)| owner.is_some());
        cpus.map(|(cpu, _)| cpu as u16).collect()
    }

    pub fn warm(&mut self) {
        for (area, owner) in std::mem::take(&mut self.warm_areas) {
            for index in 0..self.work.pages.lines(area) {
                if let Some(line) = self.work.pages.physical(virtual_line(area, index)) {
                    let cha = self.route.cha(line, &self.work);
                    self.chas[cha].warm(line, owner, &self.work);
                }
            }
        }
    }

    /// Hands a signal to the part it is for.
    pub fn handle(&mut self, signal: Signal) {
        match signal {
            Signal::Run { cpu } => {
                self.on_core(cpu as u16, |core, work| core.run(cpu as u16, work))
            }
            Signal::Issue { cpu, slot } => {
                self.on_core(cpu as u16, |core, work| core.issue(cpu as u16, slot, work));
            }
            Signal::L2Result { request } => {
                let cpu = self.work.requests[request].cpu;
                self.on_core(cpu, |core, work| core.l2_result(request, work));
            }
            Signal::Fill { request } => {
                let cpu = self.work.requests[request].cpu;
                self.on_core(cpu, |core, work| core.fill(request, work));
            }
            Signal::Accepted { request } => self.accepted(request),
            Signal::AtCha { request } => self.at_cha(request),
            Signal::LlcResult { request } => {
                let cha = self.route.cha(self.work.requests[request].line, &self.work);
                let onward = self.chas[cha].result(request, &mut self.work);
                self.go_on(onward);
            }
            Signal::Returned { request } => {
                let cha = self.route.cha(self.work.requests[request].line, &self.work);
                let onward = self.chas[cha].returned(request, &mut self.work);
                self.go_on(onward);
            }
            Signal::ChannelFree { channel } => self.channels[channel as usize].free(&mut self.work),
            Signal::UpiFar { request } => self.upi.far(request, &mut self.work),
            Signal::UpiFree => self.upi.free(&mut self.work),
            Signal::Dma { agent } => self.agents[agent as usize].run(&mut self.work),
            Signal::PageMove { number } => self.move_pages(number),
            Signal::Sample { .. } | Signal::WindowEnd => {}
            signal => self.on_port(signal),
        }
    }

    fn on_core(&mut self, cpu: u16, act: impl FnOnce(&mut CpuCore, &mut Clockwork)) {
        if let Some(core) = &mut self.cores[self.route.core(cpu)] {
            act(core, &mut self.work);
        }
    }

    fn on_port(&mut self, signal: Signal) {
        let work = &mut self.work;
        let port_of = |request: u32| device_of(work.requests[request].line).unwrap_or(0);
        match signal {
            Signal::AtRemotePort { request } => self.ports[port_of(request)].arrive(request, work),
            Signal::AtDevice { request } => {
                self.ports[port_of(request)].device.arrive(request, work);
            }
            Signal::DeviceReady { request } => self.ports[port_of(request)].respond(request, work),
            Signal::DownFree { device } => self.ports[device as usize].down_free(work),
            Signal::UpFree { device } => self.ports[device as usize].up_free(work),
            Signal::MediumFree { device } => self.ports[device as usize].device.free(work),
            Signal::Credit {
                device,
                is_write,
                owner,
            } => {
                self.ports[device as usize].credit(is_write, owner, work);
            }
            _ => {}
        }
    }

    fn at_cha(&mut self, request: u32) {
        let line = self.work.requests[request].line;
        if self.work.requests[request].path == Path::Io {
            let cpu = self.work.pages.cpu(line);
            if cpu != NO_CPU {
                self.on_core(cpu, |core, _| core.caches.invalidate(line));
            }
        }
        let cha = self.route.cha(line, &self.work);
        self.chas[cha].arrive(request, &mut self.work);
    }

    fn accepted(&mut self, request: u32) {
        let (cpu, owner) = (
            self.work.requests[request].cpu,
            self.work.requests[request].owner,
        );
        if cpu != NO_CPU {
            self.on_core(cpu, |core, work| core.accepted(request, work));
        } else if let Some(agent) = self.agent_of[usize::from(owner)] {
            self.agents[agent as usize].accepted(request, &mut self.work);
        }
    }

    fn go_on(&mut self, onward: Onward) {
        let Onward::Memory(request) = onward else {
            return;
        };
        let line = self.work.requests[request].line;
        match self.work.pages.memory(line) {
            Target::Cxl => {
                let port = device_of(line).unwrap_or(0);
                self.ports[port].arrive(request, &mut self.work);
            }
            Target::Dram => {
                let channels = self.channels.len() as u64;
                let channel = crate::memory::pages::interleaved(line, 2, channels) as usize;
                self.channels[channel].arrive(request, &mut self.work);
            }
            _ => self.upi.arrive(request, &mut self.work),
        }
    }

    fn move_pages(&mut self, number: u32) {
        let planned = &self.moves[number as usize];
        for &area in &planned.areas {
            let (from, to) = (planned.from_part, planned.to_part);
            self.work.pages.move_pages(area, from, to, planned.to);
        }
    }

    pub fn read_truth(&mut self) -> TruthReader {
        self.work.charge_stalls();
        let cpus = self.work.meters.iter().map(|meter| {
            let measured = [CpuCount::StallsL1Miss, CpuCount::BoundOnStores];
            let measured = measured
                .map(|what| meter.counts[what as usize])
                .iter()
                .sum();
            let all = meter.counts[CpuCount::Stalls as usize];
            [meter.retired, meter.accesses, measured, all]
        });
        TruthReader {
            at: self.work.now,
            truth: self.work.truth.clone(),
            cpus: cpus.collect(),
            waits: self.waits(),
        }
    }

    /// For each stage of a request, which workload waited how long behind which: the sums over all places of
    /// that stage, up to now. Places of different kinds add to one stage where a request is at one of them at
    /// a time, such as the entries for a DRAM channel, for UPI and for a port, which are all entries of the
    /// table of requests.
    fn waits(&mut self) -> Vec<Vec<f64>> {
        let (now, count) = (self.work.now, self.names.len());
        let mut sums = vec![vec![0.0; count * (count + 1)]; Stage::COUNT];
        for core in self.cores.iter_mut().flatten() {
            core.caches
                .buffers
                .contention
                .add_to(now, &mut sums[Stage::FillBuffer as usize]);
            core.caches
                .queue
                .contention
                .add_to(now, &mut sums[Stage::SuperQueue as usize]);
        }
        for cha in &mut self.chas {
            cha.contention.add_to(now, &mut sums[Stage::Mesh as usize]);
        }
        for channel in &mut self.channels {
            channel
                .entry_contention
                .add_to(now, &mut sums[Stage::Tor as usize]);
            channel
                .bus_contention
                .add_to(now, &mut sums[Stage::Dram as usize]);
        }
        self.upi
            .entry_contention
            .add_to(now, &mut sums[Stage::Tor as usize]);
        self.upi
            .line_contention
            .add_to(now, &mut sums[Stage::Upi as usize]);
        for port in &mut self.ports {
            port.ingress_contention
                .add_to(now, &mut sums[Stage::Tor as usize]);
            port.credit_contention
                .add_to(now, &mut sums[Stage::Port as usize]);
            port.down
                .contention
                .add_to(now, &mut sums[Stage::Port as usize]);
            port.up
                .contention
                .add_to(now, &mut sums[Stage::Port as usize]);
            port.device
                .contention
                .add_to(now, &mut sums[Stage::Device as usize]);
        }
        sums
    }

    pub fn truth_between(&self, before: &TruthReader, after: &TruthReader) -> TruthWindow {
        let cpus = self
            .owners
            .iter()
            .enumerate()
            .map(|(cpu, owner)| (cpu as u16, *owner));
        let cpus: Vec<_> = cpus.collect();
        let names = RowNames {
            workloads: &self.names,
            cpus: &cpus,
        };
        after.since(before, &names)
    }

    pub fn progress(&self) -> Vec<Progress> {
        let sum = |owner: usize, value: fn(&CpuMeter) -> u64| {
            let cpus = self.work.meters.iter().zip(&self.owners);
            let own = cpus.filter(|(_, o)| **o == Some(owner as u8));
            own.map(|(meter, _)| value(meter)).sum()
        };
        let names = self.names.iter().enumerate();
        let rows = names.map(|(owner, name)| Progress {
            workload: name.clone(),
            instructions: sum(owner, |meter| meter.retired),
            accesses: sum(owner, |meter| meter.accesses),
        });
        rows.collect()
    }

    pub fn cached_lines(&self) -> [usize; 3] {
        let private = self.cores.iter().flatten().map(|core| core.caches.count());
        let (l1, l2) = private.fold((0, 0), |(a, b), (l1, l2)| (a + l1, b + l2));
        [l1, l2, self.chas.iter().map(Cha::count).sum()]
    }
}
